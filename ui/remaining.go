package ui

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/session"
)

const (
	// mostSessions is of how many holders of an open lock the service is asked for the remaining
	// TTL, at most.
	mostSessions = 8

	// remainingFor is for how long all pages share an answer, and for how long one is awaited.
	remainingFor = time.Second
)

// remaining is for how long the service keeps the sessions of a lock's holders, unless they are
// renewed. The request of one page asks for it, for all pages: if that one is cancelled, the others
// ask again when its answer is too old.
type remaining struct {
	at   time.Time // when it was asked for
	done chan struct{}
	left map[string]int64 // milliseconds by session, without those that are not known; set before done is closed
}

// remaining returns the remaining TTLs of the holders of an open lock, in milliseconds, and as of
// when. It returns none where they are not known: the service reports them to no client, or does
// not answer.
func (r *reader) remaining(ctx context.Context, name string) (left map[string]int64, at int64) {
	ctx, cancel := context.WithTimeout(ctx, remainingFor)
	defer cancel()
	now := r.now()
	r.mu.Lock()
	maps.DeleteFunc(r.left, func(_ string, a *remaining) bool { return now.Sub(a.at).Abs() >= remainingFor })
	a, sessions := r.left[name], r.board.holding(name)
	ask := a == nil && len(sessions) > 0 && len(r.left) < mostAsks && r.pages > 0 && r.status.Since == 0
	if ask {
		a = &remaining{at: now, done: make(chan struct{}), left: map[string]int64{}}
		r.left[name] = a
	}
	r.mu.Unlock()
	switch {
	case a == nil:
		return nil, 0
	case ask:
		known := make([]*time.Duration, len(sessions))
		_ = inspect.Each(ctx, len(sessions), func(ctx context.Context, i int) error {
			if d, err := r.s.RemainingTTL(ctx, session.Entry{Session: sessions[i]}); err == nil {
				known[i] = &d
			}
			return nil
		})
		for i, d := range known {
			if d != nil {
				a.left[sessions[i]] = d.Milliseconds()
			}
		}
		close(a.done)
	}
	select {
	case <-a.done:
		return a.left, millis(a.at)
	case <-ctx.Done():
		return nil, 0
	}
}

// holding returns the service sessions of the first holders of a lock.
func (b *board) holding(name string) (sessions []string) {
	l := b.locks[name]
	if l == nil {
		return nil
	}
	for i := range l.cards {
		c := &l.cards[i]
		if c.Holder && c.Session != "" && len(sessions) < mostSessions && !slices.Contains(sessions, c.Session) {
			sessions = append(sessions, c.Session)
		}
	}
	return sessions
}
