// Package etcdbackend keeps the queues of locks in etcd.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
//	s, err := etcdbackend.Open(ctx, client, nil)
//	defer s.Close()
//
// Open uses a client that the program already has and never closes it; Dial makes one
// of its own. Both return a session.Session, on which the recipes work.
//
// # Keys
//
// A session is one lease, whatever the number of locks. An entry is one key on that
// lease:
//
//	fairlock/<name>/<lease in hex>.<slot>        a mutex, a writer, a candidate
//	fairlock/<name>/<lease in hex>.<slot>.r      a reader
//	fairlock/<name>/<lease in hex>.<slot>.w3     a semaphore's request for 3 permits
//	fairlock/<name>/<lease in hex>.<slot>.v      a candidate with a value
//
// The create revision of the key is both its place in the queue and its fencing token.
// The last part of the key is a small number that is used again, because etcd keeps
// every key name until it compacts: with a new name for each acquisition, a lock that
// was acquired 100 000 times would take 15 ms instead of 0.4 ms. Keys under
// fairlock/%fence/ are not entries. They prevent a request whose answer was lost from
// being carried out late, and go with the lease. The records of a queue are not under
// its name, so that no program takes them for entries:
//
//	fairlock/%beside/<name>/limit                the limit of a semaphore, in decimal; stays
//	fairlock/%beside/<name>/ledger               the holder, or that the last one released cleanly; stays
//	fairlock/%beside/<name>/done                 the record of finished work (mutex.Once); stays
//	fairlock/%beside/<name>/slot/<number>        the entry that has this slot
//	fairlock/%beside/<name>/meta/<lease>.<slot>.v  the owner of an entry whose value is the user's
//	fairlock/%beside/<name>/asks/                the yield requests, with their reasons
//
// The value of an entry is small JSON that describes its owner. It also records that a
// writer has become a reader, or that a semaphore's request holds: both keep their key,
// and so their place and their token.
//
// In a name, "%", "/" and control characters are written as %XX, so that the names "a"
// and "a/b" never meet. LayoutConcurrency uses the name as it is, without the root. It
// shares the queue with the Mutex of etcd's package concurrency, with "etcdctl lock"
// and with the server's v3lock service.
//
// # Requirements
//
// The server must be etcd 3.5.8 or newer, or 3.4.25 or newer in the 3.4 series. Open
// reads the version of one member and refuses an older one. Where the version cannot be
// read, a waiter reads its own entry before every grant, which costs one read more.
//
// With authentication, the user needs permission to read and write under the root; in
// LayoutConcurrency under the names and under the root. That covers the leases too.
//
// A client that the program makes itself should set DialKeepAliveTime (10 s) and
// DialKeepAliveTimeout (3 s), because without them gRPC sends requests into a dead
// connection for a quarter of an hour. It should know every endpoint of the cluster.
// Requests have timeouts, and leases are renewed over several endpoints at once, so a
// session survives without these settings, but each request may first try the dead
// connection.
//
// A client whose KV and Watcher were replaced (by package namespace, or by an
// instrumented one) works, with one read more for every grant after a wait: its watches
// do not show the order of events. A gRPC proxy between client and server is not
// supported.
//
// Do not restore an etcd snapshot while clients are running, unless you use
// "--bump-revision" and "--mark-compacted": otherwise revisions go back, and tokens
// with them.
package etcdbackend
