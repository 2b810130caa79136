package connect

import (
	"cmp"
	"strings"
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
	scheme := ""
	var hosts []string
	for e := range strings.SplitSeq(f.Getenv(envEtcdctl), ",") {
		host := strings.TrimSpace(e)
		this := ""
		if before, after, ok := strings.Cut(host, "://"); ok {
			this, host = before, after
		}
		switch {
		case this != "" && this != "http" && this != "https":
			return x, usage("%s: unknown scheme: want http or https", envEtcdctl)
		case this != "" && scheme != "" && this != scheme:
			return x, usage("%s has servers with http and with https: want one of the two", envEtcdctl)
		}
		scheme = cmp.Or(scheme, this)
		hosts = append(hosts, strings.TrimSuffix(host, "/"))
	}
	x.URL = "etcd://"
	if scheme == "https" {
		x.URL = "etcds://"
	}
	x.URL += strings.Join(hosts, ",")
	return x, nil
}
