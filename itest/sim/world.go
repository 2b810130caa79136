package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/hooktest"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// ttl is that of all sessions. The margin is the default, a tenth of it.
const ttl = 2 * time.Second

// Config says which run to make.
type Config struct {
	Seed    uint64
	Kind    string         // of service, for the trace and for the command that repeats the run
	Service memory.Options // what that kind is

	Recipe    string // "" draws one
	Trace     bool   // write a readable trace
	SlowClock bool   // one clock is slower than the margin allows
	Calm      bool   // there are no faults
}

// Result is what came of a run.
type Result struct {
	Violations []string
	Trace      string // if it was asked for
	Hash       uint64 // of the trace, also if it was not
	Recipe     string
	Steps      int
	Grants     int
	Lost       int
	Faults     map[string]int
	Time       time.Duration // that passed in the run
}

// Command repeats the run.
func (c Config) Command() string {
	command := fmt.Sprintf("go test ./itest/sim -run 'TestReplay$' -v -seed %d -kind %s", c.Seed, c.Kind)
	if c.Recipe != "" {
		command += " -recipe " + c.Recipe
	}
	return command
}

// core returns package session as the packages of this module see it.
func core() door.Engine[session.Session, session.Hold, session.Entry, session.Options] {
	return session.Engine(door.Key{})
}

// world is one run.
type world struct {
	scheduler
	cfg     Config
	store   *membackend.Store
	clients []*client
	workers []*worker
	watched []*observer
	lines   []*line
	owner   map[string]*client // of sessions
	recipe  recipe
	joining *client // whose network the store is being given

	storm    int           // how bad it gets; 0 is a day without faults
	chaos    time.Duration // how long it lasts
	healed   bool
	healedAt time.Duration
	telling  int

	op         fault.Op // the request that is acting at the service
	dirty      bool
	expired    []string // sessions that ended in this event
	foreign    []*foreign
	foreigners int

	end        context.CancelFunc // of all calls, when nothing else helps
	moved      time.Duration      // when a call returned last
	busy       int                // workers that are not done
	grants     int
	lost       int
	faults     map[string]int
	closeError error
	violations []string
}

// Run makes a run. It must not be called inside a bubble.
func Run(t *testing.T, cfg Config) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(cfg)
		w.play()
		r = Result{
			Violations: w.violations, Hash: w.hash, Recipe: w.recipe.name, Steps: w.steps, Grants: w.grants, Lost: w.lost,
			Faults: w.faults, Time: w.Now(),
		}
		if w.trace != nil {
			r.Trace = w.trace.String()
		}
	})
	return r
}

// newWorld draws the shape of a run.
func newWorld(cfg Config) *world {
	w := &world{cfg: cfg, owner: make(map[string]*client), faults: make(map[string]int)}
	w.hash = fnvBasis
	if cfg.Trace {
		w.trace = &strings.Builder{}
	}
	w.random = rand.New(rand.NewPCG(cfg.Seed, hash(fnvBasis, cfg.Kind)))
	w.store = membackend.Engine(door.Key{}).NewScheduled(w.cfg.Service, timeline{w})
	all := recipes()
	w.recipe = all[w.random.IntN(len(all))]
	if i := slices.IndexFunc(all, func(r recipe) bool { return r.name == cfg.Recipe }); i >= 0 {
		w.recipe = all[i]
	}
	w.storm = []int{0, 1, 1, 2, 2, 3, 4}[w.random.IntN(7)]
	if cfg.Calm {
		w.storm = 0
	}
	if cfg.SlowClock {
		w.storm = 4
	}
	w.chaos = w.in(3*time.Second/2, 5*time.Second)
	for range 2 + w.random.IntN(3) {
		c := w.newClient()
		w.joining = c
		c.mem = w.store.NewClient()
	}
	w.recipe.lay(w)
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	for i := range 3 + w.random.IntN(5) {
		w.hire(ctx, w.clients[i%len(w.clients)])
	}
	w.plan()
	return w
}

// timeline is the world as the store sees it.
type timeline struct{ *world }

func (x timeline) After(what string, d time.Duration, f func()) {
	x.post(&event{what: atService, name: what, num: d, run: f})
}

func (x timeline) Changed(name string) {
	x.dirty = true
	for _, ln := range x.lines {
		ln.dirty = ln.dirty || ln.name == name
	}
}

func (x timeline) Expired(session string) { x.expired = append(x.expired, session) }
func (x timeline) Wire() memory.Wire      { return x.joining }

// How long a run may go on when all is healed and no call returns, and how long
// it is then watched while nobody does anything.
const (
	patience = 8 * time.Second
	quiet    = 5 * time.Second / 2
)

// play plays the run to its end.
func (w *world) play() {
	for _, c := range w.clients {
		go c.open()
	}
	for _, k := range w.workers {
		w.busy++
		go k.work()
	}
	w.woke = true
	for w.Now() < w.chaos && w.step() {
	}
	w.settle()
	w.heal()
	w.until("all have done their work", func() bool { return w.busy == 0 })
	w.busy++
	ctx, cancel := context.WithCancel(context.Background())
	w.end()
	w.end = cancel
	last := w.hire(ctx, w.clients[0])
	go last.close()
	w.woke = true
	w.until("the locks can be taken", func() bool { return w.busy == 0 })
	calm := w.Now() + quiet
	for w.Now() < calm && w.step() {
	}
	w.settle()
	w.tidy()
	w.busy += len(w.clients)
	for _, o := range w.watched {
		if o.cancel(); !o.over {
			o.awaited = true
			w.busy++
		}
	}
	for _, c := range w.clients {
		go c.close()
	}
	w.woke = true
	w.until("all is closed", func() bool { return w.busy == 0 })
	w.closed()
	w.end()
	if len(w.violations) > 0 { // what was found may keep sessions from ending
		for _, c := range w.clients {
			for _, s := range c.drivers {
				s.Abandon()
			}
		}
		w.woke = true
	}
	for w.step() && w.Now() < calm+time.Hour { // what is still under way
	}
	if len(w.violations) == 0 {
		for _, c := range w.clients {
			c.hooked()
		}
	}
	if left := w.store.Sessions(); len(left) > 0 {
		w.fail("S5", "sessions %v are left for ever", left)
	}
}

// hooked checks what the hooks of the client's sessions have reported.
func (c *client) hooked() {
	for _, r := range c.requests {
		for _, wrong := range r.Wrong() {
			c.w.fail("S7", "hook of %s: %s", c.name, wrong)
		}
		if waiting, holding := r.Open(); waiting != 0 || holding != 0 {
			c.w.fail("S7", "by the hooks of %s %d requests wait and %d hold for ever", c.name, waiting, holding)
		}
	}
}

// closed checks that no session is left that somebody had, and has closed. What an
// Open has left whose answer was lost will expire.
func (w *world) closed() {
	if w.closeError != nil {
		return
	}
	left := w.store.Sessions()
	for _, c := range w.clients {
		for _, s := range c.drivers {
			if slices.Contains(left, s.ID()) {
				w.fail("S5", "session %s of %s is left", s.ID(), c.name)
			}
		}
	}
}

// until goes on until something is so.
func (w *world) until(what string, so func() bool) {
	w.moved = w.Now()
	hope := patience
	for w.step() {
		w.settle()
		if so() {
			return
		}
		if w.Now() > w.moved+hope {
			w.fail("L1", "nothing moves for %s, and not so: %s", hope, what)
			w.end() // so that the run can end
			for _, c := range w.clients {
				if c.session != nil {
					go func() { _ = c.session.Close() }() // it is over anyway
				}
			}
			w.woke = true
			hope += time.Hour
		}
	}
	if !so() {
		panic("sim: nothing will happen any more, and not so: " + what + "\n" + w.cfg.Command())
	}
}

// fail notes a violation.
func (w *world) fail(property, format string, args ...any) {
	s := fmt.Sprintf("%s at %.6fs: %s", property, w.Now().Seconds(), fmt.Sprintf(format, args...))
	w.log(nil, "VIOLATION", s)
	if len(w.violations) < 10 {
		w.violations = append(w.violations, s)
	}
}

// open opens the session of a client.
func (c *client) open() {
	c.session = c.dial("keeper")
	close(c.opened)
}

// dial opens a session, until that succeeds.
func (c *client) dial(who string) *session.Session {
	ctx := context.WithValue(context.Background(), actor{}, who)
	requests := &hooktest.Requests{}
	c.requests = append(c.requests, requests)
	hooks := session.Hooks{
		Lost: func(context.Context, session.Event) { c.linger() },
		Joined: func(_ context.Context, e session.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.joined[int64(e.Token)] = true
		},
	}
	requests.Watch(&hooks)
	for {
		s, err := core().Open(ctx, kept{c.mem.Backend(), c}, &session.Options{
			TTL: ttl, Label: c.name, Logger: slog.New(slog.DiscardHandler),
			Hooks: hooks,
		})
		if err == nil {
			return s
		}
		c.sleep(who, 50*time.Millisecond)
	}
}

// linger is what a hook does that takes time, in one of two cases: as long as a
// log takes that nobody reads.
func (c *client) linger() {
	if c.Jitter(2) == 0 {
		c.sleep("hook", c.Jitter(ttl))
	}
}

// kept is the backend of a client that remembers its service sessions.
type kept struct {
	driver.Backend
	c *client
}

// Open opens a session.
func (b kept) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if err == nil {
		b.c.drivers = append(b.c.drivers, s)
	}
	return s, err
}

// close closes it.
func (c *client) close() {
	<-c.opened
	err := c.session.Close()
	c.w.tell(c.name+" closed", func() {
		c.w.busy--
		if err != nil {
			c.w.closeError = err
		}
	})
}

// sleep lets time pass for somebody in the process.
func (c *client) sleep(who string, d time.Duration) {
	done := make(chan struct{})
	c.w.post(&event{what: atActor, c: c, name: who, num: c.true(d), run: func() { close(done) }})
	<-done
}

// name makes a name of a kind and a number.
func name(kind string, n int) string { return kind + strconv.Itoa(n) }
