package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// backend is a list of servers and one layout.
type backend struct {
	servers []string
	opts    Options // without Auth
	secrets *secrets
	lay     layout

	sealable atomic.Bool // a session has found that a seal is useful
	unsealed atomic.Bool // new sessions have no seal
}

// NewBackend returns the backend that Open uses, for the conformance suite and for tools.
// It sends nothing.
func NewBackend(servers []string, opts *Options) (driver.Backend, error) {
	b, err := newBackend(servers, opts)
	if err != nil {
		return nil, fmt.Errorf("zkbackend: %w", err)
	}
	return b, nil
}

func newBackend(servers []string, opts *Options) (*backend, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, err
	}
	all, err := checkServers(servers)
	if err != nil {
		return nil, err
	}
	files, err := newSecrets(&o)
	if err != nil {
		return nil, err
	}
	o.Auth = nil
	b := &backend{servers: all, opts: o, secrets: files, lay: newLayout(o.Root, o.Layout)}
	// "auth" in an ACL means all logins of the connection, and a seal would be one of them.
	b.unsealed.Store(slices.ContainsFunc(b.sealedACL(files.logins()), func(a zk.ACL) bool { return a.Scheme == "auth" }))
	return b, nil
}

// sealedACL returns Options.ACL for a session with a seal that began with these logins: see explicit.
func (b *backend) sealedACL(logins []Auth) []zk.ACL {
	if b.secrets.tls != nil { // a certificate is an identity too
		return b.opts.ACL
	}
	return explicit(b.opts.ACL, logins)
}

// service is ZooKeeper's name in errors and tools.
const service = "zookeeper"

// Servers with the default jute.maxbuffer refuse a request of more than 0xfffff bytes. It also
// contains paths, permissions and a description.
const (
	maxJoin = 32
	maxData = 1<<20 - 24<<10
)

// Info implements driver.Backend. The servers expire a session at the first tick after its
// timeout, never before. So the margin covers only delays and clocks on the client's side.
func (b *backend) Info() driver.Info {
	return driver.Info{
		Service: service,
		Clock:   driver.SystemClock(),
		MinTTL:  2 * time.Second,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, 100*time.Millisecond) },
		MaxJoin: maxJoin,
		MaxData: maxData,
	}
}

// CheckName implements driver.Backend.
func (b *backend) CheckName(name string) error { return b.lay.check(name) }

// RemainingTTL implements driver.Backend. ZooKeeper has no request for it.
func (b *backend) RemainingTTL(context.Context, string) (time.Duration, error) {
	return 0, fmt.Errorf("zookeeper: remaining TTL of a session: %w", errors.ErrUnsupported)
}

// Close implements driver.Backend. Each session has a connection of its own.
func (b *backend) Close() error { return nil }

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	if cfg.Observer {
		return b.observe(ctx, cfg)
	}
	if !b.unsealed.Load() {
		if s, err := b.openSealed(ctx, cfg); s != nil || err != nil {
			return s, err
		}
		cfg.Logger.Info("zookeeper: entries cannot be protected, so a hand-off reads the queue")
	}
	s, err := b.open(ctx, cfg, nil)
	if err != nil {
		return nil, err
	}
	b.unsealed.Store(true)
	return s, nil
}

// observe opens a session that makes no entries. Without a login of the user it logs in with a seal, as the
// sessions with entries do: servers that require a login by password (enforce.auth.schemes) take any.
func (b *backend) observe(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	if len(b.secrets.logins()) == 0 && !b.unsealed.Load() {
		s, err := b.open(ctx, cfg, newSeal())
		if !errors.Is(err, driver.ErrDenied) {
			return opened(s, err)
		}
	}
	return opened(b.open(ctx, cfg, nil))
}

// opened keeps a nil out of the interface.
func opened(s *zkSession, err error) (driver.Session, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openSealed opens a session with a seal. It returns nil without an error if a seal is not
// useful. Then the caller opens a session whose connections do not log in with the seal: "auth"
// would mean that login too.
func (b *backend) openSealed(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	l := newSeal()
	s, err := b.open(ctx, cfg, l)
	useful := b.sealable.Load()
	switch {
	case errors.Is(err, driver.ErrDenied):
		return nil, nil //nolint:nilnil // the servers refuse a login, perhaps that of the seal
	case err != nil:
		return nil, err
	case !useful:
		useful, err = l.isUseful(ctx, s)
	}
	if useful {
		b.sealable.Store(true)
		return s, nil
	}
	ctx, stop := driver.WithTimeout(ctx, b.Info().Clock, time.Second)
	defer stop()
	_ = s.Close(ctx) // or it expires
	return nil, err
}

func (b *backend) open(ctx context.Context, cfg driver.Config, l *seal) (*zkSession, error) {
	b.secrets.log(cfg.Logger)
	began := b.secrets.logins()
	logins := func() []conn.Auth {
		all := b.secrets.connecting(began)
		if l != nil {
			all = append(all, l.auth)
		}
		return all
	}
	proof := conn.ProofAuto
	if b.opts.Proof == ProofQuorum {
		proof = conn.ProofQuorum
	}
	c, err := conn.Open(ctx, conn.Config{
		Servers: b.servers, Dial: b.opts.Dial, TLS: b.secrets.tls, Auth: logins, TTL: cfg.TTL, Margin: cfg.Margin,
		Proof: proof, TickTime: b.opts.TickTime, Renewed: cfg.Renewed, Gone: cfg.Gone,
		Observer: cfg.Observer, Logger: cfg.Logger, Clock: b.Info().Clock,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the servers
	}
	s := &zkSession{b: b, cfg: cfg, conn: c, seal: l, acl: b.opts.ACL, entryACL: b.opts.ACL}
	if s.own = newRegistry(s); l != nil {
		s.acl = b.sealedACL(began)
		s.entryACL = l.entryACL(s.acl)
	}
	s.folders = folders{conn: c, acl: s.acl, log: cfg.Logger}
	return s, nil
}
