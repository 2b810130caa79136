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

// ttl is the TTL of all sessions. The margin is the default, a tenth of it.
const ttl = 2 * time.Second

// Config describes a run.
type Config struct {
	Seed    uint64
	Kind    string         // of service, for the trace and for the command that repeats the run
	Service memory.Options // what that kind is

	Recipe    string // "" draws one
	Trace     bool   // write a readable trace
	SlowClock bool   // one clock is slower than the margin allows
	Calm      bool   // there are no faults
}

// Result is the result of a run.
type Result struct {
	Violations []string
	Trace      string // if Config.Trace is set
	Hash       uint64 // of the trace, also if that is not written
	Recipe     string
	Steps      int
	Grants     int
	Lost       int
	Faults     map[string]int
	Time       time.Duration // that passed in the run
}

// Command returns the command that repeats the run.
func (c Config) Command() string {
	command := fmt.Sprintf("go test ./itest/sim -run 'TestReplay$' -v -seed %d -kind %s", c.Seed, c.Kind)
	if c.Recipe != "" {
		command += " -recipe " + c.Recipe
	}
	return command
}

// core returns package session as the packages of this module see it.
func core() session.Inside {
	return session.Engine(door.Key{})
}

// simulation is one run.
type simulation struct {
	scheduler
	cfg     Config
	store   *membackend.Store
	clients []*client
	workers []*worker
	watched []*observer
	queues  []*queue
	owner   map[string]*client // of sessions
	recipe  recipe
	joining *client // the client that the store is being given
	numbers bool    // candidates have generations

	severity   int           // how many faults there are; 0 is none
	faultTime  time.Duration // how long there are faults
	healed     bool
	healedAt   time.Duration
	deliveries int
	armed      map[string]bool // by session and target: whether the session knows that its watch is armed

	op         fault.Op // the request that the service is carrying out
	dirty      bool
	expired    []string // sessions that ended in this event
	foreign    []*foreign
	foreigners int

	done       map[finished]time.Duration // when a call of Once first returned nil
	end        context.CancelFunc         // of all calls, at the end of the run
	moved      time.Duration              // when a call returned last
	busy       int                        // workers that are not done
	grants     int
	lost       int
	faults     map[string]int
	closeError error
	violations []string
}

// Run makes a run. It must not be called inside a bubble of testing/synctest.
func Run(t *testing.T, cfg Config) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newSimulation(cfg)
		w.run()
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

// newSimulation draws the clients, workers and faults of a run.
func newSimulation(cfg Config) *simulation {
	w := &simulation{cfg: cfg, owner: map[string]*client{}, faults: map[string]int{}, done: map[finished]time.Duration{}, armed: map[string]bool{}}
	w.hash = fnvBasis
	if cfg.Trace {
		w.trace = &strings.Builder{}
	}
	w.random = rand.New(rand.NewPCG(cfg.Seed, hash(fnvBasis, cfg.Kind)))
	w.store = membackend.Engine(door.Key{}).New(w.cfg.Service, timeline{w})
	all := recipes()
	w.recipe = all[w.random.IntN(len(all))]
	if i := slices.IndexFunc(all, func(r recipe) bool { return r.name == cfg.Recipe }); i >= 0 {
		w.recipe = all[i]
	}
	w.severity = []int{0, 1, 1, 2, 2, 3, 4}[w.random.IntN(7)]
	if cfg.Calm {
		w.severity = 0
	}
	if cfg.SlowClock {
		w.severity = 4
	}
	w.faultTime = w.in(3*time.Second/2, 5*time.Second)
	for range 2 + w.random.IntN(3) {
		c := w.newClient()
		w.joining = c
		c.mem = w.store.NewClient()
	}
	w.recipe.setUp(w)
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	for i := range 3 + w.random.IntN(5) {
		w.addWorker(ctx, w.clients[i%len(w.clients)])
	}
	w.plan()
	return w
}

// timeline is the simulation as the memory.Schedule of the store.
type timeline struct{ *simulation }

func (x timeline) After(what string, d time.Duration, f func()) {
	x.post(&event{what: atService, name: what, num: d, run: f})
}

func (x timeline) Changed(name string) {
	x.dirty = true
	for _, q := range x.queues {
		q.dirty = q.dirty || q.name == name
	}
}

func (x timeline) Expired(session string) { x.expired = append(x.expired, session) }
func (x timeline) Wire() memory.Wire      { return x.joining }

// How long a run may go on when all faults are over and no call returns, and how long it is
// watched at the end while no worker does anything.
const (
	timeout = 8 * time.Second
	quiet   = 5 * time.Second / 2
)

// run carries out the run to its end.
func (w *simulation) run() {
	for _, c := range w.clients {
		go c.open()
	}
	for _, k := range w.workers {
		w.busy++
		go k.work()
	}
	w.woke = true
	for w.Now() < w.faultTime && w.step() {
	}
	w.settle()
	w.heal()
	w.until("all have done their work", func() bool { return w.busy == 0 })
	w.busy++
	ctx, cancel := context.WithCancel(context.Background())
	w.end()
	w.end = cancel
	last := w.addWorker(ctx, w.clients[0])
	go last.close()
	w.woke = true
	w.until("the locks can be acquired", func() bool { return w.busy == 0 })
	leave := w.look()
	calm := w.Now() + quiet
	for w.Now() < calm && w.step() {
	}
	w.settle()
	w.tidy()
	leave()
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
	if len(w.violations) > 0 { // a violation may keep sessions from ending
		for _, c := range w.clients {
			for _, s := range c.drivers {
				s.Abandon()
			}
		}
		w.woke = true
	}
	for w.step() && w.Now() < calm+time.Hour { // the rest of the events
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

// look has an observer watch every queue, if the service is one that ends only the sessions that a
// client observes. The function that it returns ends that.
func (w *simulation) look() (leave func()) {
	if !w.cfg.Service.Observed {
		return func() {}
	}
	s, err := w.clients[0].mem.Backend().Open(context.Background(), driver.Config{Observer: true})
	if err != nil {
		panic(err) // in memory it sends nothing
	}
	for _, q := range w.queues {
		s.Watch(driver.Target{Kind: driver.OfQueue, Queue: q.name}, func(driver.Event) {})
	}
	w.woke = true
	return s.Abandon
}

// hooked checks the calls of the hooks of the client's sessions.
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

// closed checks that no closed session is left at the service. A session whose Open was not
// answered expires.
func (w *simulation) closed() {
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

// until carries out events until a condition holds.
func (w *simulation) until(what string, cond func() bool) {
	w.moved = w.Now()
	wait := timeout
	for w.step() {
		w.settle()
		if cond() {
			return
		}
		if w.Now() > w.moved+wait {
			w.fail("L1", "nothing moves for %s, waiting until %s", wait, what)
			w.end() // so that the run can end
			for _, c := range w.clients {
				if c.session != nil {
					go func() { _ = c.session.Close() }() // it is over anyway
				}
			}
			w.woke = true
			wait += time.Hour
		}
	}
	if !cond() {
		panic("sim: no event is left, waiting until " + what + "\n" + w.cfg.Command())
	}
}

// fail records a violation.
func (w *simulation) fail(property, format string, args ...any) {
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

// dial opens a session, and tries again until that succeeds.
func (c *client) dial(caller string) *session.Session {
	ctx := context.WithValue(context.Background(), actor{}, caller)
	requests := &hooktest.Requests{}
	c.requests = append(c.requests, requests)
	hooks := session.Hooks{
		Lost: func(context.Context, session.Event) { c.blockHook() },
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
		c.sleep(caller, 50*time.Millisecond)
	}
}

// blockHook blocks a hook for up to a TTL, in one of two cases.
func (c *client) blockHook() {
	if c.Jitter(2) == 0 {
		c.sleep("hook", c.Jitter(ttl))
	}
}

// kept is the backend of a client that keeps a list of its service sessions.
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

// close closes the session of a client.
func (c *client) close() {
	<-c.opened
	err := c.session.Close()
	c.w.report(c.name+" closed", func() {
		c.w.busy--
		if err != nil {
			c.w.closeError = err
		}
	})
}

// sleep blocks a goroutine of the process for a while.
func (c *client) sleep(caller string, d time.Duration) {
	done := make(chan struct{})
	c.w.post(&event{what: atActor, c: c, name: caller, num: c.true(d), run: func() { close(done) }})
	<-done
}

// name returns a name of a kind and a number.
func name(kind string, n int) string { return kind + strconv.Itoa(n) }
