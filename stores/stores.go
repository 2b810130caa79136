// Package stores opens a session on the service that a URL names: etcd, ZooKeeper, PostgreSQL,
// Redis, Valkey or memory.
// It is a module of its own, because it links the clients of all stores; a program that needs
// one of them imports that backend alone.
package stores

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// DefaultTimeout is the timeout of Open unless the URL or Options set one.
const DefaultTimeout = 5 * time.Second

// Options are the options of Open that are not in the URL. The zero value is ready to
// use. A field that is not zero takes precedence over the URL.
type Options struct {
	// Session has the options of all backends: TTL, margin, label, hooks and logger.
	Session session.Options

	// Username and Password are the login. They are never logged, and no error contains
	// them. A Password without a user, here or in the URL, is an error; on Redis it is that of
	// the user "default". PasswordFile is a file that contains only the password, instead of
	// Password.
	Username, Password, PasswordFile string

	// CAFile, CertFile and KeyFile are PEM files. ServerName is the name that the
	// servers' certificates are checked for; "" means the host that was dialled. Any of
	// them turns TLS on. These files and PasswordFile, here and in the URL, are read again
	// for each connection and each login: see etcdbackend.DialConfig,
	// zkbackend.DigestFileAuth, pgbackend.Options and RedisConfig.
	CAFile, CertFile, KeyFile, ServerName string

	// TLS turns TLS on with this configuration. It excludes the files, and is used as it
	// is: to show another certificate later it needs GetClientCertificate.
	TLS *tls.Config

	// Timeout bounds connecting, login and the opening of the session together. 0 means
	// the timeout in the URL, or else DefaultTimeout.
	Timeout time.Duration

	// Memory is the service behind mem://. Nil means a new one, which no other Session
	// uses and which ends with this one.
	Memory *membackend.Store
}

// Open opens a Session on the service that a URL names. Closing the Session closes the
// connections that Open made. opts may be nil.
//
//	etcd://[user[:password]@]host[:port][,…][/root][?parameters]
//	zk://[user[:password]@]host[:port][,…][/root][?parameters]
//	postgres://[user[:password]@]host[:port][,…][/database][?parameters]
//	redis://[user[:password]@]host[:port][,…][/database][?parameters]
//	mem://[?parameters]
//
// The schemes etcds, zks and rediss use TLS; etcd, zk and redis do too if a parameter configures
// it. valkey and valkeys mean the same as redis and rediss. The default ports are 2379, 2181, 5432
// and 6379. The root is where the queues are kept; on etcd without the slash before it, on
// PostgreSQL and Redis a parameter, because the path is the database.
// A user of ZooKeeper is one of its scheme "digest". Characters with a meaning in a URL
// ("/", "?", "#", "@", "%", and ":" in a user) are written as %XX in user, password and
// path. Each parameter may be given once:
//
//	ttl=15s margin=1s label=…     as in session.Options
//	timeout=5s                    as in Options
//	layout=…                      etcd: native, concurrency; zk: curator, kazoo
//	ca=… cert=… key=…             PEM files for TLS, as in Options
//	server-name=…                 the name in the servers' certificates
//	password-file=…               a file that contains only the password
//	root=/                        zk: the root "/", which the path cannot name
//	tick=2s proof=…               zk: as in zkbackend.Options; auto, quorum
//	acl=…                         zk: world, or auth: only our user has access to entries
//	schema=… root=… weaker=true   postgres: as in pgbackend.Options (AcceptWeaker)
//	listen=…                      postgres: host:port of the server itself behind a pooler, or off
//	sslmode=…                     postgres: disable, require, verify-ca, verify-full
//	host=/… port=…                postgres: the folder and the port of a socket, instead of servers
//	root=… nodes=3 max-ttl=15s    redis: as in redisbackend.Options; a ttl that is not given is at most max-ttl
//	weaker=true                   redis: as redisbackend.Options.AcceptWeaker
//	master=…                      redis: the servers are sentinels (port 26379) that watch this master
//	sentinel-login=true           redis: the sentinels want the same login
//
// Of several servers of PostgreSQL the primary counts. Its scheme may be postgresql too.
// Without sslmode the certificate and its name are verified, unless all servers are on this
// machine and nothing configures TLS: then there is none. What such a URL leaves out is as
// for psql: PGUSER, PGPASSWORD, ~/.pgpass, and the database that has the name of the user.
//
// Of several servers of Redis the master counts; of a cluster, some nodes are enough. A password
// without a user is that of the user "default".
//
// Use a password in a URL only in tests: others may see the URL in a list of processes
// or a log. Use password-file or Options instead.
//
// An error wraps session.ErrInvalidOptions (a wrong URL, parameter or file; nothing was
// sent), session.ErrDenied, session.ErrRefused or session.ErrUnavailable. The last
// comes when ctx ends or the timeout has passed. An error contains neither the URL nor
// a password.
func Open(ctx context.Context, url string, opts *Options) (*session.Session, error) {
	o, a, err := opts.parse(url)
	if err != nil {
		return nil, fmt.Errorf("stores: open: %w: %w", session.ErrInvalidOptions, err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var s *session.Session
	switch a.Service {
	case address.Etcd:
		s, err = o.openEtcd(ctx, a)
	case address.ZooKeeper:
		s, err = o.openZooKeeper(ctx, a)
	case address.Postgres:
		s, err = o.openPostgres(ctx, a)
	case address.Redis:
		s, err = o.openRedis(ctx, a)
	default:
		s, err = o.openMemory(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("stores: open: %w", err)
	}
	return s, nil
}

// parse parses a URL, and returns it with the options: each completed with what only the other has.
// o may be nil.
func (o *Options) parse(url string) (Options, *address.Address, error) {
	var all Options
	if o != nil {
		all = *o
	}
	a, err := address.Parse(url)
	if err == nil {
		err = all.merge(a)
	}
	return all, a, err
}

// merge completes o with the settings of the URL, and a with those that only o has.
func (o *Options) merge(a *address.Address) error {
	if a.Service == address.Memory && (o.Username != "" || o.Password != "" || o.PasswordFile != "" || o.TLS != nil || o.tlsFiles()) {
		return errors.New("mem:// has no users and no TLS")
	}
	if o.TLS != nil && (o.tlsFiles() || a.CAFile != "" || a.CertFile != "" || a.KeyFile != "" || a.ServerName != "") {
		return errors.New("TLS and files for it exclude each other")
	}
	if o.Username != "" && o.Username != a.User {
		a.User, a.Password, a.PasswordFile = o.Username, "", "" // the credentials of another user
	}
	switch {
	case o.Password != "" && o.PasswordFile != "":
		return errors.New("a Password and a PasswordFile exclude each other")
	case o.Password != "" || o.PasswordFile != "":
		a.Password, a.PasswordFile = o.Password, o.PasswordFile
	}
	if o.CertFile != "" || o.KeyFile != "" {
		a.CertFile, a.KeyFile = o.CertFile, o.KeyFile
	}
	a.CAFile, a.ServerName = cmp.Or(o.CAFile, a.CAFile), cmp.Or(o.ServerName, a.ServerName)
	o.Session.TTL, o.Session.Margin = cmp.Or(o.Session.TTL, a.TTL), cmp.Or(o.Session.Margin, a.Margin)
	o.Session.Label = cmp.Or(o.Session.Label, a.Label)
	o.Timeout = cmp.Or(o.Timeout, a.Timeout, DefaultTimeout)
	if o.Timeout < 0 {
		return fmt.Errorf("the Timeout %s is negative", o.Timeout)
	}
	return o.checkFiles(a)
}

func (o *Options) tlsFiles() bool {
	return o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" || o.ServerName != ""
}

// checkFiles reads the files that a names, so that nothing is opened if one is missing.
func (o *Options) checkFiles(a *address.Address) error {
	if a.PasswordFile != "" {
		if _, err := credential.ReadPassword(a.PasswordFile); err != nil {
			return err //nolint:wrapcheck // it names the file
		}
	}
	secret := a.Password != "" || a.PasswordFile != ""
	if secret && a.User == "" && a.Service == address.Redis {
		a.User = address.DefaultUser
	}
	switch {
	case secret && a.User == "":
		return errors.New("there is a password and no user")
	case !secret && a.User != "" && a.Service != address.Postgres: // which has other ways to know a user
		return fmt.Errorf("there is no password for user %q", a.User)
	}
	switch {
	case a.SSLMode == address.SSLDisable && (o.TLS != nil || a.Files().Any()):
		return errors.New("sslmode=disable, and TLS or files for it, exclude each other")
	case o.TLS != nil || !a.TLS(), a.Service == address.Postgres:
		return nil
	case !a.Files().Any():
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		return nil
	}
	_, err := a.Files().Open()
	return err //nolint:wrapcheck // it names the file
}

func (o *Options) openEtcd(ctx context.Context, a *address.Address) (*session.Session, error) {
	eo := &etcdbackend.Options{Session: o.Session, Root: a.Root}
	if a.Layout == etcdbackend.LayoutConcurrency.String() {
		eo.Layout = etcdbackend.LayoutConcurrency
	}
	return etcdbackend.Dial(ctx, etcdbackend.DialConfig{
		Endpoints: a.Hosts, TLS: o.TLS, CAFile: a.CAFile, CertFile: a.CertFile, KeyFile: a.KeyFile, ServerName: a.ServerName,
		Username: a.User, Password: a.Password, PasswordFile: a.PasswordFile, Timeout: o.Timeout,
	}, eo)
}

func (o *Options) openZooKeeper(ctx context.Context, a *address.Address) (*session.Session, error) {
	zo := &zkbackend.Options{
		Session: o.Session, Root: a.Root, TickTime: a.Tick,
		TLS: o.TLS, CAFile: a.CAFile, CertFile: a.CertFile, KeyFile: a.KeyFile, ServerName: a.ServerName,
	}
	if a.Layout == zkbackend.LayoutKazoo.String() {
		zo.Layout = zkbackend.LayoutKazoo
	}
	for p := zkbackend.ProofAuto; p <= zkbackend.ProofQuorum; p++ {
		if a.Proof == p.String() {
			zo.Proof = p
		}
	}
	switch {
	case a.PasswordFile != "":
		zo.Auth = []zkbackend.Auth{zkbackend.DigestFileAuth(a.User, a.PasswordFile)}
	case a.User != "":
		zo.Auth = []zkbackend.Auth{zkbackend.DigestAuth(a.User, a.Password)}
	}
	if a.ACL == "auth" {
		if a.User == "" && a.CertFile == "" && (o.TLS == nil || len(o.TLS.Certificates) == 0 && o.TLS.GetClientCertificate == nil) {
			return nil, fmt.Errorf("%w: parameter acl=auth needs a user or a certificate", session.ErrInvalidOptions)
		}
		zo.ACL = zk.AuthACL(zk.PermAll)
	}
	return zkbackend.Open(ctx, a.Hosts, zo)
}

func (o *Options) openMemory(ctx context.Context) (*session.Session, error) {
	store := o.Memory
	if store == nil {
		store = membackend.New()
	}
	return store.Open(ctx, &o.Session)
}
