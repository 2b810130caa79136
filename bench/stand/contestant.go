package stand

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// A Contestant is a lock, used in one way.
type Contestant struct {
	Name  string
	Use   string // how it is used; contestants with the same use are compared
	Ours  bool
	Old   bool // ours, at an earlier commit
	Bare  bool // only the requests: see Bare
	Alone bool // one session for each contender, as separate processes would have

	// Sessions is how many sessions share the contenders of one that is not Alone; 0 is one.
	Sessions int

	// Against is the contestant of ours that a second peer is compared with; "" for the first
	// peer, whose Use shows it.
	Against string

	Hooks *session.Hooks `json:"-"` // of the sessions, if ours is observed
}

// Options returns the options of a session of ours.
func (c Contestant) Options(ttl time.Duration) session.Options {
	o := session.Options{TTL: ttl}
	if c.Hooks != nil {
		o.Hooks = *c.Hooks
	}
	return o
}

// The names of this library's contestants, on every service.
const (
	Ours           = "fairlock"
	OursOneSession = "fairlock, one session"
)

// Bare is the name of the contestant that shows what the service itself costs. It sends
// the requests that a fair lock cannot do without: the one that joins the queue, a read
// and a watch of the entry ahead, and the delete. Programs cannot use it as a lock: it does
// not notice that its session has ended, nor that a request was lost.
const Bare = "bare requests"

// Contestants returns ours and the peer's, each with both uses, and the bare requests.
func Contestants(peer, peerTogether string) []Contestant {
	const alone, together = "a session each", "one process"
	return []Contestant{
		{Name: Ours, Use: alone, Ours: true, Alone: true},
		{Name: peer, Use: alone, Alone: true},
		{Name: OursOneSession, Use: together, Ours: true},
		{Name: peerTogether, Use: together},
		{Name: Bare, Use: Bare, Bare: true, Alone: true},
	}
}

// WithOld returns the contestants and, behind each of ours, the same at an earlier commit.
func WithOld(cs []Contestant, commit string) []Contestant {
	var all []Contestant
	for _, c := range cs {
		all = append(all, c)
		if c.Ours {
			c.Name, c.Old = OldName(c.Name, commit), true
			all = append(all, c)
		}
	}
	return all
}

// OldName returns the name of a contestant of ours at an earlier commit.
func OldName(name, commit string) string {
	return Ours + " " + commit + strings.TrimPrefix(name, Ours)
}

// A Contender locks and unlocks, one lock at a time. A peer without contexts does not notice
// the end of ctx: see Team.StopWaiters.
type Contender interface {
	Lock(ctx context.Context, name string) (unlock func() error, err error)
}

// Ordered is a Contender whose grants have tokens, which rise in the order of the queue.
type Ordered interface {
	// LockOrdered is Lock, and returns the token of the grant too.
	LockOrdered(ctx context.Context, name string) (unlock func() error, token int64, err error)
}

// A Candidate is a Contender of a peer that has an election too.
type Candidate interface {
	// Lead campaigns, calls work as the leader, and resigns. It ends when ctx ends.
	Lead(ctx context.Context, name string, work func(ctx context.Context)) error
}

// Of returns a contender of ours that locks through a session.
func Of(s *session.Session) Contender { return ours{s} }

// Session returns the session of a contender of ours, to use other recipes than the mutex;
// nil if the contender is the peer's.
func Session(c Contender) *session.Session {
	o, _ := c.(ours)
	return o.s
}

type ours struct{ s *session.Session }

// Lock implements Contender.
func (c ours) Lock(ctx context.Context, name string) (func() error, error) {
	unlock, _, err := c.LockOrdered(ctx, name)
	return unlock, err
}

// LockOrdered implements Ordered.
func (c ours) LockOrdered(ctx context.Context, name string) (func() error, int64, error) {
	h, err := mutex.New(c.s, name).Lock(ctx)
	if err != nil {
		return nil, 0, err
	}
	return Unlock(h), int64(h.Token()), nil
}

// Unlock returns a function that releases a hold.
func Unlock(h *session.Hold) func() error {
	return func() error {
		err := h.Unlock()
		if errors.Is(err, session.ErrReleasePending) {
			return nil // the release took more than a second, which is slow but no failure
		}
		return err
	}
}
