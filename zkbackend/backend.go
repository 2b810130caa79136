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

// backend is a list of servers and one layout. It has no connection: each session has its own.
type backend struct {
	// servers are "host:port" each, at least one, and no two are the same.
	servers []string

	// opts are complete and were checked. Auth is nil: only secrets has the logins.
	opts    Options
	secrets *secrets
	lay     layout

	// sealing is a sealState: what sessions have found out about seals, for those that come later.
	sealing atomic.Int32
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
	if slices.ContainsFunc(b.sealedACL(files.logins()), func(a zk.ACL) bool { return a.Scheme == "auth" }) {
		b.sealsAreUseless()
	}
	return b, nil
}

// service is ZooKeeper's name in errors and tools.
const service = "zookeeper"

// Servers with the default jute.maxbuffer refuse a request of more than 0xfffff bytes. It also
// contains paths, permissions and a description: 24 KiB are left for those of maxJoin queues.
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
		Keeps:   driver.Keeps{Exclusion: driver.Always, Order: driver.Always, Tokens: driver.Always},
	}
}

// CheckName implements driver.Backend.
func (b *backend) CheckName(name string) error { return b.lay.check(name) }

// Close implements driver.Backend. Each session has a connection of its own.
func (b *backend) Close() error { return nil }

// Open implements driver.Backend. A session with entries has a seal where that is useful. If the
// first session finds that it is not, that session is closed and another one is opened, whose
// connections do not log in with a seal.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	if cfg.Observer {
		return opened(b.observe(ctx, cfg))
	}
	if b.seals() != sealUseless {
		s, err := b.openSealed(ctx, cfg)
		if !errors.Is(err, errNoSeal) {
			return opened(s, err)
		}
		cfg.Logger.Info("zookeeper: entries cannot be protected, so a hand-off reads the queue")
	}
	s, err := b.open(ctx, cfg, nil)
	if err == nil {
		b.sealsAreUseless()
	}
	return opened(s, err)
}

// observe opens a session that makes no entries. Without a login of the user it logs in with a seal, as the
// sessions with entries do: servers that require a login by password (enforce.auth.schemes) take any.
func (b *backend) observe(ctx context.Context, cfg driver.Config) (*zkSession, error) {
	if len(b.secrets.logins()) == 0 && b.seals() != sealUseless {
		s, err := b.open(ctx, cfg, newSeal())
		if !errors.Is(err, driver.ErrDenied) {
			return s, err
		}
	}
	return b.open(ctx, cfg, nil)
}

// opened keeps a nil out of the interface.
func opened(s *zkSession, err error) (driver.Session, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open opens a session, with a seal unless l is nil. The logins of a connection are read again for
// each: see secrets.connecting.
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
	s.own = newRegistry(s)
	if l != nil {
		s.acl = b.sealedACL(began)
		s.entryACL = l.entryACL(s.acl)
	}
	s.folders = folders{conn: c, acl: s.acl, log: cfg.Logger}
	return s, nil
}
