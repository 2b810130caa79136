package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/hooktest"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// Client is a session on a network of its own that records what its hooks and its log
// report. Fixture.Client opens one; a case that opens the session by itself uses the
// zero value with SessionOptions and Opened.
type Client struct {
	*session.Session

	Log progtest.Buffer

	requests hooktest.Requests // as the hooks show them; balanced when the session is closed

	ttl time.Duration
	w   *Fixture          // nil if a case has opened the session by itself
	net drivertest.Client // nil likewise

	own    ownEntries
	joined chan session.Token // one for each time that a request joined; a case may receive them

	mu             sync.Mutex
	lost, rejoined []session.Event
	opened         []string // the service sessions, in order
}

// SessionOptions returns the options that the client's session must be opened with.
func (c *Client) SessionOptions(t testing.TB, ttl time.Duration) session.Options {
	o := c.options(ttl)
	o.Label = t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
	o.Logger = c.Log.Logger(t)
	return o
}

func (c *Client) options(ttl time.Duration) session.Options {
	c.ttl, c.joined = ttl, make(chan session.Token, 1000)
	note := func(to *[]session.Event) func(session.Event) {
		return func(ev session.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			*to = append(*to, ev)
		}
	}
	o := session.Options{
		TTL: ttl,
		Hooks: session.Hooks{
			Joined: func(_ context.Context, ev session.Event) {
				select {
				case c.joined <- ev.Token:
				default: // the case does not receive them
				}
			},
			SessionLost: note(&c.lost),
			Rejoined:    func(_ context.Context, ev session.Event) { note(&c.rejoined)(ev) },
			SessionOpened: func(ev session.Event) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.opened = append(c.opened, ev.Session)
			},
		},
	}
	if ttl > CalmTTL {
		o.Margin = time.Second // Close waits that long for a hold that a case leaves; a tenth of such a TTL is a minute
	}
	c.requests.Watch(&o.Hooks)
	return o
}

// Opened takes the result of opening the session and returns the error. The session
// is closed when the test ends.
func (c *Client) Opened(t testing.TB, s *session.Session, err error) error {
	if err == nil {
		c.Session = s
		t.Cleanup(func() {
			if c.net != nil {
				c.net.Heal()
			}
			c.closes(t)
			c.balanced(t)
		})
	}
	return err
}

// closes closes the session. In real time a service that stands still may not answer as long as
// Close waits for it: for the TTL, and at most five seconds.
func (c *Client) closes(t testing.TB) {
	t.Helper()
	began := time.Now()
	err := c.Close()
	slow := time.Since(began) >= min(c.ttl, 5*time.Second) && errors.Is(err, driver.ErrUnavailable)
	virtual := c.w != nil && c.w.h.Virtual
	if virtual || !slow {
		assert.NoError(t, err, "close")
	}
}

// balanced fails the test unless, by the hooks of the closed session, every request had
// one outcome and every hold one end.
func (c *Client) balanced(t testing.TB) {
	t.Helper()
	waiting, holding := c.requests.Open()
	for end := time.Now().Add(Patience); waiting+holding > 0 && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond) // some calls have yet to return
		waiting, holding = c.requests.Open()
	}
	assert.Zero(t, waiting, "requests that wait for ever, by the hooks")
	assert.Zero(t, holding, "holds that last for ever, by the hooks")
	assert.Empty(t, c.requests.Wrong(), "calls of hooks")
}

// Kept fails the test if the client lost a session or a place.
func (c *Client) Kept(t testing.TB) {
	t.Helper()
	assert.Empty(t, c.Lost(), "lost sessions")
	assert.Empty(t, c.Rejoined(), "lost places")
}

// Lost returns the events of sessions that ended before they were closed.
func (c *Client) Lost() []session.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lost)
}

// Rejoined returns the events of requests that had to join again.
func (c *Client) Rejoined() []session.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rejoined)
}

// Stands waits until the client's requests have joined n times, in a case that receives none of
// them.
func (c *Client) Stands(t testing.TB, n int) {
	t.Helper()
	Until(t, "a place in the queue", func() bool { return len(c.joined) >= n })
}

// Queued waits until a queue has n entries, and returns them.
func (c *Client) Queued(t testing.TB, name string, n int) (entries []driver.Entry) {
	t.Helper()
	Until(t, fmt.Sprintf("%d entries of %q", n, name), func() bool {
		v, err := core().Of(c.Session).Read(Bounded(t), whole(name))
		require.NoError(t, err)
		entries = v.Entries
		return len(entries) == n
	})
	return entries
}

// whole requests all of a queue as it is now, also from a member that lags behind.
func whole(name string) driver.ReadRequest {
	return driver.ReadRequest{Queue: name, Marks: true, Detail: true, Fresh: true}
}

// Clock returns the clock of the client's backend.
func (c *Client) Clock() driver.Clock { return core().Of(c.Session).Clock() }

// Info returns what the service of the client is, and can do.
func (c *Client) Info() driver.Info { return core().Of(c.Session).Info() }

// core returns package session as the packages of this module see it.
func core() session.Inside {
	return session.Engine(door.Key{})
}

// Refs returns the entries behind a hold.
func Refs(h *session.Hold) []driver.Ref { return core().Hold(h).Refs() }

// Detail returns the driver's entry behind e.
func Detail(e session.Entry) driver.Entry { return core().Detail(e) }

// Shown returns an entry as users see it.
func Shown(e driver.Entry) session.Entry { return core().Entry(1, true, e) }

// Previous returns how the hold before this one ended.
func Previous(h *session.Hold) engine.Past { return core().Hold(h).Past() }

// Service returns the newest service session.
func (c *Client) Service() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened[len(c.opened)-1]
}

// Request is a Lock, or one of its kind, under way.
type Request struct {
	Done chan struct{} // closed when Lock has returned

	// These are set then.
	Hold *session.Hold
	Err  error
	At   driver.Instant

	c     *Client
	at    time.Time     // At, on the clock of the case, which may be virtual
	token session.Token // of its place, if the case has waited for it
}

// Begin calls Lock. That ends at the latest when the session is closed.
func (c *Client) Begin(ctx context.Context, name string) *Request {
	return c.BeginWith(func() (*session.Hold, error) { return mutex.New(c.Session, name).Lock(ctx) })
}

// BeginWith starts a request for a hold of any recipe.
func (c *Client) BeginWith(want func() (*session.Hold, error)) *Request {
	r := &Request{Done: make(chan struct{}), c: c}
	go func() {
		defer close(r.Done)
		r.Hold, r.Err = want()
		r.At, r.at = Now(), time.Now()
	}()
	return r
}

// Lock calls Begin and Granted.
func (c *Client) Lock(t testing.TB, name string) *session.Hold {
	t.Helper()
	return c.Begin(Bounded(t), name).Granted(t)
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
	require.True(t, r.waiting(), "Lock has returned: hold %v, error %v", r.Hold, r.Err)
}

// waiting reports whether Lock has not returned yet.
func (r *Request) waiting() bool {
	select {
	case <-r.Done:
		return false
	default:
		return true
	}
}
