package stand

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// A Contestant is a lock in one way of using it.
type Contestant struct {
	Name  string
	Use   string // how it is used, which both sides of a comparison share
	Ours  bool
	Old   bool // ours, of an earlier commit
	Bare  bool // only the requests: see Bare
	Alone bool // a session for every contender, as so many processes would have

	Hooks *session.Hooks `json:"-"` // of the sessions, if ours are observed
}

// Options are those of a session of ours.
func (c Contestant) Options(ttl time.Duration) session.Options {
	o := session.Options{TTL: ttl}
	if c.Hooks != nil {
		o.Hooks = *c.Hooks
	}
	return o
}

// Ours are the names of this library's contestants, on every service.
const (
	Ours           = "fairlock"
	OursOneSession = "fairlock, one session"
)

// Bare is the name of the contestant that shows what the service itself costs. It sends
// the requests that a fair lock cannot do without: the one that joins the queue, a read
// and a watch of the entry ahead, and the delete. It is no lock to use: it does not notice
// that its session has ended, nor that a request was lost.
const Bare = "bare requests"

// Contestants are ours beside the peer's, each alone and together, and the bare requests.
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

// WithOld returns the contestants with those of ours at an earlier commit, each behind its
// successor.
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

// OldName is what a contestant of ours is called at an earlier commit.
func OldName(name, commit string) string {
	return Ours + " " + commit + strings.TrimPrefix(name, Ours)
}

// A Contender locks and unlocks, one lock at a time. Where the peer knows no
// contexts, the end of ctx may go unnoticed: see Team.Disperse.
type Contender interface {
	Lock(ctx context.Context, name string) (unlock func() error, err error)
}

// Of returns a contender of ours who locks through a session.
func Of(s *session.Session) Contender { return ours{s} }

// Session returns what a contender of ours locks through, for those who want
// another recipe than the mutex; nil if it is the peer's.
func Session(c Contender) *session.Session {
	o, _ := c.(ours)
	return o.s
}

type ours struct{ s *session.Session }

// Lock implements Contender.
func (c ours) Lock(ctx context.Context, name string) (func() error, error) {
	h, err := mutex.New(c.s, name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return Unlock(h), nil
}

// Unlock returns what gives back a hold.
func Unlock(h *session.Hold) func() error {
	return func() error {
		err := h.Unlock()
		if errors.Is(err, session.ErrReleasePending) {
			return nil // it took a second, which is slow and no failure
		}
		return err
	}
}
