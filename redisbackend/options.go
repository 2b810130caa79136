package redisbackend

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/session"
)

// The defaults of Options.
const (
	DefaultRoot   = "fairlock"
	DefaultMaxTTL = session.DefaultTTL
)

// What keeps names well below what Redis takes as a key.
const maxRoot = 512

// minTTL is far above what a request takes, also on a busy server.
const minTTL = time.Second

// Options are the options of Open, Dial and NewBackend. The zero value is ready to use.
type Options struct {
	// Session has the options of all backends: TTL, margin, label, hooks and logger. The minimum TTL is
	// 1 s, and the maximum MaxTTL.
	Session session.Options

	// Root begins the names of all keys, as their hash tag: "{root}:"; "" means DefaultRoot. Two roots
	// share no lock. It has at most 512 bytes of UTF-8, without control characters and braces. In a cluster
	// all keys of a root are on one shard.
	Root string

	// MaxTTL is the greatest TTL of a session of any program on this root; 0 means DefaultMaxTTL. After a
	// restart or a failover of Redis nothing is granted for that long. All programs of a root have the same
	// one: it is kept in the root, and a program that has another is refused.
	MaxTTL time.Duration

	// Nodes is how many servers have the data of the root: 1 for a server alone, 3 for a master with two
	// replicas, in a cluster those of one shard; 0 means 1. A renewal counts only when a majority of them has
	// it. So a master that was replaced cannot keep a lock of its own. All programs of a root have the same.
	Nodes int

	// AcceptWeaker opens a Session also where the server does not keep what a lock needs: where its
	// maxmemory-policy may evict keys of a lock, and where it has more replicas than Nodes counts. Then two
	// clients may hold at once.
	AcceptWeaker bool
}

// checked returns a copy with the defaults filled in, or what is wrong. o may be nil. Package session
// checks its part, before anything is sent too.
func (o *Options) checked() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	if c.MaxTTL == 0 {
		c.MaxTTL = DefaultMaxTTL
	}
	if c.Nodes == 0 {
		c.Nodes = 1
	}
	switch {
	case len(c.Root) > maxRoot || !utf8.ValidString(c.Root) || strings.ContainsFunc(c.Root, control) || strings.ContainsAny(c.Root, "{}"):
		return c, fmt.Errorf("%w: Root must be at most %d bytes of UTF-8 without control characters and braces", session.ErrInvalidOptions, maxRoot)
	case address.CheckPath(c.Root) != nil:
		return c, fmt.Errorf("%w: Root %q %w", session.ErrInvalidOptions, c.Root, address.CheckPath(c.Root))
	case c.MaxTTL < minTTL:
		return c, fmt.Errorf("%w: MaxTTL %s is less than %s", session.ErrInvalidOptions, c.MaxTTL, minTTL)
	case c.Nodes < 0:
		return c, fmt.Errorf("%w: Nodes is %d: want how many servers have the data", session.ErrInvalidOptions, c.Nodes)
	}
	return c, nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// acks is how many replicas must have a renewal: with the master they are a majority of the nodes.
func (o *Options) acks() int { return o.Nodes / 2 }

// claimAcks is how many replicas must have a claim, so that one of those that have it, the master included, is
// among any that can acknowledge a renewal.
func (o *Options) claimAcks() int { return o.Nodes - 1 - o.acks() }
