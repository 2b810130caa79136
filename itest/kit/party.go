package kit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/heard"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Party is a Session with what its hooks and its log said.
type Party struct {
	*session.Session // set by whoever opens it with SessionOptions

	Log heard.Words

	mu                     sync.Mutex
	joined, lost, rejoined []session.Event
	opened                 []string // the service sessions, in order
}

// SessionOptions are those that the party's Session is to be opened with.
func (p *Party) SessionOptions(t testing.TB, ttl time.Duration) session.Options {
	note := func(to *[]session.Event) func(session.Event) {
		return func(ev session.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			*to = append(*to, ev)
		}
	}
	return session.Options{
		TTL:   ttl,
		Label: t.Name()[strings.LastIndexByte(t.Name(), '/')+1:],
		Hooks: session.Hooks{
			Joined: note(&p.joined), SessionLost: note(&p.lost), Rejoined: note(&p.rejoined),
			SessionOpened: func(ev session.Event) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.opened = append(p.opened, ev.Session)
			},
		},
		Logger: p.Log.Logger(t),
	}
}

// Opened takes in the Session, or why there is none, and has it closed when the
// test ends.
func (p *Party) Opened(t testing.TB, s *session.Session, err error) error {
	if err == nil {
		p.Session = s
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
	}
	return err
}

// Kept fails the test if the party lost a session or a place.
func (p *Party) Kept(t testing.TB) {
	t.Helper()
	assert.Empty(t, p.Lost(), "lost sessions")
	assert.Empty(t, p.Rejoined(), "lost places")
}

// Lost is what was told of sessions that ended before they were closed.
func (p *Party) Lost() []session.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lost)
}

// Rejoined is what was told of requests that had to begin anew.
func (p *Party) Rejoined() []session.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.rejoined)
}

// Stands waits until the party has got its n-th place in a line.
func (p *Party) Stands(t testing.TB, n int) {
	t.Helper()
	Until(t, "a place in the line", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.joined) >= n
	})
}

// Service is the newest service session.
func (p *Party) Service() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[len(p.opened)-1]
}

// Request is a Lock, or one of its kind, under way.
type Request struct {
	Done chan struct{} // closed when Lock has returned

	// These are set then.
	Hold *session.Hold
	Err  error
	At   driver.Instant
}

// Begin calls Lock. That ends at the latest when the Session is closed.
func (p *Party) Begin(ctx context.Context, name string) *Request {
	return p.BeginWith(func() (*session.Hold, error) { return mutex.New(p.Session, name).Lock(ctx) })
}

// BeginWith asks for a hold in any way.
func (p *Party) BeginWith(want func() (*session.Hold, error)) *Request {
	r := &Request{Done: make(chan struct{})}
	go func() {
		defer close(r.Done)
		r.Hold, r.Err = want()
		r.At = Now()
	}()
	return r
}

// Lock is Begin and Granted.
func (p *Party) Lock(t testing.TB, name string) *session.Hold {
	t.Helper()
	return p.Begin(Bounded(t), name).Granted(t)
}

// Unlock gives back. That the service has not answered for a second is no failure
// on a machine that may stand still for as long: it is being finished.
func Unlock(t testing.TB, h *session.Hold) {
	t.Helper()
	if err := h.Unlock(); !errors.Is(err, session.ErrReleasePending) || driver.Incurable(err) {
		assert.NoError(t, err, "unlock")
	}
}

// Granted waits for the hold.
func (r *Request) Granted(t testing.TB) *session.Hold {
	t.Helper()
	Wait(t, r.Done, "a grant")
	require.NoError(t, r.Err)
	return r.Hold
}

// Waits fails the test if Lock has returned.
func (r *Request) Waits(t testing.TB) {
	t.Helper()
	select {
	case <-r.Done:
		require.Fail(t, "Lock has returned", "hold %v, error %v", r.Hold, r.Err)
	default:
	}
}
