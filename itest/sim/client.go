package sim

import (
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hooktest"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// client is one process: its clock and its network.
type client struct {
	w    *simulation
	n    int
	name string
	mem  *membackend.Client

	session  *session.Session     // nil until it is open
	requests []*hooktest.Requests // by the hooks of its sessions
	drivers  []driver.Session     // the service sessions under it, one after the other
	opened   chan struct{}
	closing  bool            // its session is being closed, and another one opened
	shut     time.Duration   // when that began last
	opens    []time.Duration // when it asked for a service session: those before are over then

	mu     sync.Mutex
	joined map[int64]bool // the tokens of entries that it knows it has made

	// The clock: rate is how much of its own time passes in a million of true.
	rate   int64
	offset time.Duration

	// Its faults. Only the scheduler's goroutine uses these.
	pausedTill, requestsTill, repliesTill time.Duration
	paused                                bool
	cut                                   fault.Direction
	kept                                  []*event // events that wait for the end of a pause
	epoch                                 int      // of its connection
	delivered                             map[string]time.Duration
	answered                              map[string]time.Duration // by a request: when its last answer came
	lag                                   time.Duration            // of the answer to the next renewal
	faultAt                               time.Duration            // when a fault last began or ended, see lastFault
	resumed                               time.Duration
}

// number orders clients; nil comes first.
func (c *client) number() int {
	if c == nil {
		return -1
	}
	return c.n
}

// knows reports whether the client knows that it has made an entry.
func (c *client) knows(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joined[e.Token]
}

// given returns how long a client without a fault has known an entry that has just gone, and could send
// requests about it: it sends none for a service session that it has given up.
func (c *client) given(e *entry) time.Duration {
	till := e.goneAt
	for _, at := range c.opens {
		if at > e.made {
			till = min(till, at)
		}
	}
	return till - max(e.made, c.lastFault())
}

// lastFault returns when the client last had a fault. While it is stopped or cut off that
// is now: an event that still reaches it can show its turn long after the cut began, and
// then the grant comes only when its requests pass again.
func (c *client) lastFault() time.Duration {
	if c.paused || c.cut != 0 {
		return max(c.faultAt, c.w.Now())
	}
	return c.faultAt
}

// true is how long a span of the client's time takes, or a little longer.
func (c *client) true(d time.Duration) time.Duration {
	return time.Duration(float64(d)/float64(c.rate)*1_000_000) + time.Millisecond/1000
}

// Now is the time by the client's clock.
func (c *client) Now() driver.Instant {
	now := c.w.Now()
	return driver.Instant(c.offset + time.Duration(float64(now)*float64(c.rate)/1_000_000))
}

// Wall is the time of day.
func (c *client) Wall() time.Time { return time.Unix(1_800_000_000, 0).Add(c.w.Now()) }

// Jitter is random, and depends only on the seed, the client and the time.
func (c *client) Jitter(d time.Duration) time.Duration {
	h := c.w.cfg.Seed*fnvPrime ^ uint64(c.w.Now())
	h = (h ^ uint64(c.n+1)) * 0x9E3779B97F4A7C15
	h = (h ^ h>>29 ^ uint64(d)) * 0xBF58476D1CE4E5B9
	h ^= h >> 32
	return time.Duration(h % uint64(max(d, 1)))
}

// timer calls f once, unless it was stopped.
type timer struct {
	f    func()
	done bool // guarded by the scheduler's mutex
}

// AfterFunc has the scheduler call f. Timers of a process that were set at the same time
// and are due at the same time fire together, so it does not matter which was set first.
func (c *client) AfterFunc(d time.Duration, f func()) func() bool {
	t := &timer{f: f}
	s := &c.w.scheduler
	s.post(&event{what: atTimer, c: c, num: c.true(max(d, 0)), timers: []*timer{t}})
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		first := !t.done
		t.done = true
		return first
	}
}

// fire calls the timers of an event, and reports whether there were any.
func (s *scheduler) fire(e *event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fired := false
	for _, t := range e.timers {
		if !t.done {
			t.done, fired = true, true
			go t.f()
		}
	}
	return fired
}

// actor is the context key of the name of a caller.
type actor struct{}

// flight is a request under way.
type flight struct {
	memory.Request
	c    *client
	name string
}

// join makes another request travel with this one.
func (f *flight) join(o memory.Request) {
	r, goes := f.Request, false
	f.Launch = func() bool {
		goes = o.Launch()
		return r.Launch() || goes
	}
	f.Arrive = func(reply bool) func() {
		answer := r.Arrive(reply)
		if !goes {
			return answer
		}
		return both(answer, o.Arrive(reply))
	}
	f.Broke = both(r.Broke, o.Broke)
}

// both returns a function that calls two, each of which may be nil.
func both(f, g func()) func() {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func() { f(); g() }
}

// Send has the scheduler launch a request.
func (c *client) Send(r memory.Request) {
	by := ""
	if r.Ctx != nil {
		by, _ = r.Ctx.Value(actor{}).(string)
	}
	f := &flight{Request: r, c: c, name: string(r.Op) + " " + r.Of + " " + r.Session + " " + by}
	c.w.post(&event{what: atLaunch, c: c, name: f.name, req: f})
}

// Deliver has the scheduler deliver an event to a session. It is called in the
// scheduler's own goroutine, so the order of calls is the same in every run. What is sent
// while replies are cut is lost, also if the cut ends before the scheduler gets to it: it
// would overtake the report that the watches are lost.
func (c *client) Deliver(session, what string, f func()) {
	if c.cut&fault.Replies != 0 {
		return
	}
	c.w.deliveries++
	c.w.post(&event{
		what: atDeliver, c: c, num: time.Duration(c.w.deliveries), epoch: c.epoch,
		name: session, req: &flight{c: c, name: what}, run: f,
	})
}

// newClient makes a client with a clock of its own.
func (w *simulation) newClient() *client {
	n := len(w.clients)
	c := &client{
		w: w, n: n, name: "c" + strconv.Itoa(n), opened: make(chan struct{}),
		rate: 930_000 + w.random.Int64N(150_001), offset: w.in(time.Minute, time.Hour),
		answered: make(map[string]time.Duration), delivered: make(map[string]time.Duration), joined: make(map[int64]bool),
	}
	if w.cfg.SlowClock && n == 0 {
		c.rate = 300_000
	}
	w.clients = append(w.clients, c)
	return c
}
