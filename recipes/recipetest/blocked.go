package recipetest

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// blockedReports are the cases of programs whose logger or hook does not return.
func blockedReports() []testCase {
	return []testCase{
		{"EveryContextEndsInTimeWhileTheLoggerBlocks", func(w *Fixture) {
			blockedReport(w, func(o *session.Options, b *block) { o.Logger = slog.New(blockingHandler{o.Logger.Handler(), b}) })
		}},
		{"EveryContextEndsInTimeWhileAHookBlocks", func(w *Fixture) {
			blockedReport(w, func(o *session.Options, b *block) {
				lost := o.Hooks.Lost
				o.Hooks.Lost = func(ctx context.Context, e session.Event) {
					b.pass()
					lost(ctx, e)
				}
			})
		}},
	}
}

// block blocks its callers from close on until open.
type block struct {
	closed  atomic.Bool
	opened  chan struct{}
	blocked atomic.Int32 // callers that block, or did
}

func (b *block) pass() {
	if b.closed.Load() {
		b.blocked.Add(1)
		<-b.opened
	}
}

func (b *block) open() {
	b.closed.Store(false)
	close(b.opened)
}

// blockingHandler is a slog.Handler that blocks where b does.
type blockingHandler struct {
	slog.Handler
	b *block
}

// Handle blocks, and handles then.
func (h blockingHandler) Handle(ctx context.Context, r slog.Record) error {
	h.b.pass()
	return h.Handler.Handle(ctx, r)
}

// blockedReport: at the deadline of a session that has lost its network, the
// context of each of its holds has ended when another session is granted one of
// the locks, although the program's logger or hook has not returned from the first
// report. Unlock and other sessions do not wait for it either.
func blockedReport(w *Fixture, with func(*session.Options, *block)) {
	for !reportBlocks(w, with) {
		require.False(w.t, w.h.Virtual, "the session was lost before its network was cut")
	}
}

// reportBlocks is one round of it. It returns false if the machine stood still, so that the session was lost
// before its network was cut.
func reportBlocks(w *Fixture, with func(*session.Options, *block)) bool {
	w.t.Helper()
	const holds = 20
	b := &block{opened: make(chan struct{})}
	other := w.Client("other")
	a := w.open("a", w.short, func(o *session.Options) { with(o, b) })
	w.t.Cleanup(b.open) // before the session is closed
	held := make([]*session.Hold, holds)
	next := make([]*Request, holds)
	for i := range held {
		m := func(s *session.Session) *mutex.Mutex { return mutex.New(s, fmt.Sprint(name, i)) }
		h, err := m(a.Session).Lock(w.soon())
		require.NoError(w.t, err)
		held[i] = h
		next[i] = other.queueFor(w.soon(), func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			h2, err := m(s).Lock(ctx)
			if err == nil {
				w.endedFirst(h, "the context of hold %d is live when another session holds", i)
			}
			return h2, err
		})
	}
	if len(a.Lost()) > 0 {
		for _, h := range held {
			_ = h.Unlock()
		}
		for _, r := range next {
			w.unlock(r.granted())
		}
		return false
	}
	b.closed.Store(true)
	a.net.Cut(fault.Both)
	for _, r := range next {
		r.granted()
		for i, h := range held {
			w.endedFirst(h, "the context of hold %d is live when another session holds a lock", i)
		}
		w.unlock(r.Hold)
	}
	assert.Positive(w.t, b.blocked.Load(), "the report blocks")
	for _, h := range held {
		require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	}
	return true
}
