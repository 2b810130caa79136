package connect

import (
	"strings"

	"github.com/fairlock/fairlock/internal/address"
)

// The variables that etcdctl reads. They are used if nothing else names a service.
// ZooKeeper's own tools read no variable for the servers.
const (
	envEtcdctl         = "ETCDCTL_ENDPOINTS"
	envEtcdctlCA       = "ETCDCTL_CACERT"
	envEtcdctlCert     = "ETCDCTL_CERT"
	envEtcdctlKey      = "ETCDCTL_KEY"
	envEtcdctlUser     = "ETCDCTL_USER"
	envEtcdctlPassword = "ETCDCTL_PASSWORD"
)

// etcdctl returns the values of etcdctl's variables as a context. As etcdctl does, it
// takes the password from the user ("name:password") unless it has a variable of
// its own.
func (f *Flags) etcdctl() (namedContext, error) {
	x := namedContext{CA: f.Getenv(envEtcdctlCA), Cert: f.Getenv(envEtcdctlCert), Key: f.Getenv(envEtcdctlKey)}
	x.User, x.Password = f.Getenv(envEtcdctlUser), f.Getenv(envEtcdctlPassword)
	if x.Password == "" {
		x.User, x.Password, _ = strings.Cut(x.User, ":")
	}
	endpoints := strings.Split(f.Getenv(envEtcdctl), ",")
	for i, e := range endpoints {
		endpoints[i] = strings.TrimSpace(e)
	}
	hosts, scheme, err := address.Endpoints(endpoints)
	if err != nil {
		return x, usage("%s: %w", envEtcdctl, err)
	}
	x.URL = "etcd://"
	if scheme == "https" {
		x.URL = "etcds://"
	}
	x.URL += strings.Join(hosts, ",")
	return x, nil
}
