package etcdtest

import "github.com/fairlock/fairlock/internal/testserver"

// CA is a temporary certificate authority. Its certificates are valid for a day and for
// the loopback addresses, and its key never leaves the memory. File is the authority's
// own certificate, for others to trust; Issue writes a certificate and its key, good
// for a server and for a client; Client returns what a client needs to be a user and to
// trust the servers. To etcd a client's name is its user.
type CA = testserver.CA

// NewCA returns an authority that writes its files into dir, which must exist.
func NewCA(dir string) (*CA, error) { return testserver.NewCA(dir) }
