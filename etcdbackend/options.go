package etcdbackend

import (
	"fmt"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/session"
)

// DefaultRoot is the prefix of the keys unless Options.Root is set.
const DefaultRoot = "fairlock"

// maxRoot keeps root, name and entry well below what etcd takes as a key.
const maxRoot = 512

// Layout is how names become keys. All programs that share a lock must use the same
// layout.
type Layout int

const (
	// LayoutNative keeps the lock "a/b" under "fairlock/a%2Fb/". Two names never meet,
	// whatever characters they contain. It is the default.
	LayoutNative Layout = iota

	// LayoutConcurrency keeps the lock "a/b" under "a/b/", without the root, and shares
	// the queue with concurrency.Mutex, concurrency.Election, "etcdctl lock" and
	// v3lock. As with them, the lock "a" also waits for holders of "a/b", because their
	// keys begin with "a/". A request for "a" with the context of a hold of "a/b"
	// returns session.ErrReentrant, because it would wait for itself.
	LayoutConcurrency
)

// String returns the layout's name.
func (l Layout) String() string {
	switch l {
	case LayoutNative:
		return "native"
	case LayoutConcurrency:
		return "concurrency"
	}
	return fmt.Sprintf("Layout(%d)", int(l))
}

// Options are the options of Open, Dial and NewBackend. The zero value is ready to use.
type Options struct {
	// Session has the options of all backends: TTL, margin, label, hooks and logger.
	// The minimum TTL is 2 s. etcd grants whole seconds and rounds up to its own
	// minimum (one and a half times the election timeout).
	//
	// The default margin covers an election timeout of 1 s, which is etcd's default. If
	// the servers run with a longer --election-timeout, set Margin to at least that: a
	// new leader may count leases from up to one election timeout before the last
	// renewal that the old leader acknowledged. etcd does not report that setting to
	// clients.
	Session session.Options

	// Root is the prefix of the keys; "" means DefaultRoot. It may contain "/" between its
	// parts, not at its ends, and has at most 512 bytes of UTF-8. A root that looks like
	// the rest of an address ("prod,b:2379/prod", "prod?label=x") is refused. In keys "/" and "%" of the
	// root are written as %2F and %25: the keys of the root "prod/locks" begin with
	// "prod%2Flocks/". So two roots never share a key, even if one begins with the
	// other. In LayoutConcurrency only keys that are not entries are kept there.
	Root string

	// Layout is how names become keys. 0 means LayoutNative.
	Layout Layout

	// Lease is a lease that exists, and that the Session takes over from an earlier process:
	// the Session renews it, and Close revokes it, with all keys on it. Session.TTL is
	// ignored then, but for the time that requests are given; set it to that of the lease.
	// Entries that the earlier process has left on the lease are those of another program.
	// If that lease is lost, the Session goes on with a new one. Open returns
	// session.ErrRefused if there is no such lease. 0 means a new lease.
	Lease clientv3.LeaseID
}

// checked returns a copy with the defaults filled in, or what is wrong. o may be nil. Package
// session checks its part, before anything is sent too.
func (o *Options) checked() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	switch {
	case len(c.Root) > maxRoot || !utf8.ValidString(c.Root):
		return c, fmt.Errorf("%w: Root must be at most %d bytes of UTF-8", session.ErrInvalidOptions, maxRoot)
	case address.CheckPath(c.Root) != nil:
		return c, fmt.Errorf("%w: Root %q %w", session.ErrInvalidOptions, c.Root, address.CheckPath(c.Root))
	case c.Layout != LayoutNative && c.Layout != LayoutConcurrency:
		return c, fmt.Errorf("%w: there is no %s", session.ErrInvalidOptions, c.Layout)
	}
	return c, nil
}
