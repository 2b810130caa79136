package observed

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	ttl      = 10 * time.Second
	margin   = time.Second
	patience = 6 * time.Second // of a request
	tick     = time.Second     // between two looks of an observer
)

var seedFlag = flag.Int("seed", -1, "the seed of the only world that the random tests run")

// A world is a store that ends nothing by itself, and clients as a backend would make them of this
// package, in virtual time. Everything in it is guarded by mu.
type world struct {
	mu sync.Mutex
	running
	store
	sessions []*owned // all that there ever were
	wrong    []string // violations
	events
}

// events counts what has happened, so that a test can see that something has.
type events struct{ grants, blessed, ends, renewedFirst, claimsKept int }

// dice draws for one goroutine, so that a seed is one run.
type dice struct{ *rand.Rand }

func newDice(seed, of uint64) dice { return dice{rand.New(rand.NewPCG(seed, of))} }

// between returns a random time.
func (d dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)))
}

// oneIn reports true once in so many times.
func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

// travel is how long a request or an answer is on its way.
func (d dice) travel() time.Duration {
	if d.oneIn(15) {
		return d.between(0, 3*ttl/2)
	}
	return d.between(time.Millisecond, 50*time.Millisecond)
}

// running is the goroutines of a world, and when they end.
type running struct {
	sync.WaitGroup
	until time.Time
}

func (r *running) on() bool { return time.Now().Before(r.until) }

// A store is the primary. Each method is one statement, and the caller has mu.
type store struct {
	life  string
	lives int
	data
	standby data // an older state
}

// data is what a standby copies.
type data struct {
	stored, claim string
	versions      map[string]int64 // of the sessions
	queue         []string         // the sessions with an entry in the only queue
}

func (d *data) clone() data {
	return data{d.stored, d.claim, maps.Clone(d.versions), slices.Clone(d.queue)}
}

// owned is a session as its owner knows it.
type owned struct {
	id       string
	life     string
	of       *client
	deadline driver.Instant // on the clock of the owner; 0 when it is over
	holds    bool
	disowned bool
}

// trusts reports whether the owner trusts the session.
func (s *owned) trusts() bool { return s.of.now() < s.deadline }

// A client is a process.
type client struct {
	*world
	dice
	name       string
	n          int // of its sessions
	ahead      time.Duration
	fast       time.Duration // its clock gains so much in a second
	leases     Leases
	quarantine Quarantine
}

// now is the client's clock. Each has an origin and a rate of its own; margin covers the difference
// of the rates.
func (c *client) now() driver.Instant {
	passed := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	return driver.Instant(c.ahead + passed + time.Duration(passed.Seconds()*float64(c.fast)))
}

// send has the store carry out f, and calls answered with the result when the answer arrives. Either
// may take long.
func send[T any](w *world, d dice, f func() T, answered func(T)) {
	there, back := d.travel(), d.travel()
	w.Go(func() {
		time.Sleep(there)
		w.mu.Lock()
		result := f()
		w.mu.Unlock()
		time.Sleep(back)
		answered(result)
	})
}

// ask has the store carry out f, and returns the answer if it came in time. If not, f may have been
// carried out, or will be later.
func ask[T any](c *client, f func() T) (answer T, ok bool) {
	answers := make(chan T, 1)
	send(c.world, c.dice, f, func(result T) { answers <- result })
	select {
	case answer = <-answers:
		return answer, true
	case <-time.After(patience):
		return answer, false
	}
}

// The statements.

func (w *world) shown() Store {
	return Store{Server: w.life, Stored: w.stored, Claim: w.claim, MaxTTL: ttl}
}

func (w *world) claimIt(seen Store, claim string) Store {
	switch {
	case w.life == seen.Server && w.stored != w.life && w.claim == seen.Claim:
		w.claim = claim
	case claims(w.claim, w.life):
		w.claimsKept++
	}
	return w.shown()
}

func (w *world) bless(seen Store, claim string) Store {
	if w.life == seen.Server && w.claim == claim {
		w.data = data{stored: w.life, versions: map[string]int64{}}
		w.blessed++
		for _, s := range w.sessions {
			if s.trusts() {
				w.violation("life %q is blessed, and %s still trusts its session", w.life, s.id)
			}
		}
	}
	return w.shown()
}

// usable reports whether a statement of a session of a life may write.
func (w *world) usable(life string) bool { return w.life == life && w.stored == life }

func (w *world) insert(s *owned) bool {
	if w.usable(s.life) {
		w.versions[s.id] = 1
	}
	return w.usable(s.life)
}

func (w *world) renew(s *owned) bool {
	_, there := w.versions[s.id]
	if !w.usable(s.life) || !there {
		return false
	}
	w.versions[s.id]++
	return true
}

func (w *world) end(by *client, life string, sight Sight) bool {
	v, there := w.versions[sight.ID]
	if !w.usable(life) || !there {
		return false
	}
	if v != sight.Version {
		w.renewedFirst++
		return false
	}
	w.ends++
	for _, s := range w.sessions {
		switch {
		case s.id != sight.ID:
		case s.trusts():
			w.violation("%s is ended, and its owner still trusts it", s.id)
		case s.of == by && !s.disowned:
			w.violation("%s is ended by its owner", s.id)
		}
	}
	return w.remove(sight.ID)
}

func (w *world) remove(id string) bool {
	delete(w.versions, id)
	return w.leave(id)
}

func (w *world) leave(id string) bool {
	w.queue = slices.DeleteFunc(w.queue, func(other string) bool { return other == id })
	return true
}

func (w *world) join(s *owned) bool {
	_, there := w.versions[s.id]
	if w.usable(s.life) && there && !slices.Contains(w.queue, s.id) {
		w.queue = append(w.queue, s.id)
	}
	return there
}

// reading is the sessions with an entry, and the first entry.
type reading struct {
	all   []Sight
	first string
	ok    bool // the life is that of the session
}

func (w *world) read(life string) reading {
	r := reading{ok: w.usable(life)}
	if !r.ok || len(w.queue) == 0 {
		return r
	}
	for _, id := range w.queue {
		r.all = append(r.all, Sight{ID: id, Version: w.versions[id], TTL: ttl})
	}
	r.first = w.queue[0]
	return r
}

func (w *world) violation(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// What the client does.

// run opens sessions and takes turns in the queue, as long as the world is running. Now and then the
// process dies, and a new one has nothing of what it had counted.
func (c *client) run() {
	for c.on() {
		s := c.open()
		if s != nil {
			c.work(s)
		}
		if c.oneIn(4) {
			c.mu.Lock()
			c.leases, c.quarantine = Leases{}, Quarantine{}
			c.mu.Unlock()
		}
		time.Sleep(c.between(0, ttl/4))
	}
}

// open returns a session, or nil if it has given up.
func (c *client) open() *owned {
	ends := time.Now().Add(c.between(ttl/4, 2*ttl))
	seen, known := ask(c, c.shown)
	for time.Now().Before(ends) {
		if !known {
			seen, known = ask(c, c.shown)
			continue
		}
		was := seen
		v := c.quarantine.Judge(c.now(), was)
		switch v.Step {
		case Blessed:
			return c.openIn(was.Server)
		case ClaimIt:
			seen, known = ask(c, func() Store { return c.claimIt(was, v.Claim) })
		case Wait:
			time.Sleep(min(v.For, tick))
			seen, known = ask(c, c.shown)
		case Bless:
			seen, known = ask(c, func() Store { return c.bless(was, v.Claim) })
		}
	}
	return nil
}

// openIn opens a session in a life, which counts from the sending, as a renewal does.
func (c *client) openIn(life string) *owned {
	c.n++
	s := &owned{id: fmt.Sprint(c.name, c.n), life: life, of: c}
	c.leases.Own(s.id)
	sent := c.now()
	made, _ := ask(c, func() bool { return c.insert(s) })
	if !made {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.deadline = sent.Add(ttl - margin)
	c.sessions = append(c.sessions, s)
	return s
}

// renewals renews a session while its owner trusts it, but stalls now and then.
func (c *client) renewals(s *owned, d dice) {
	for c.trusting(s) && c.on() {
		time.Sleep(ttl / 5)
		if d.oneIn(12) {
			time.Sleep(d.between(0, 2*ttl))
		}
		if !c.trusting(s) {
			return
		}
		sent := c.now()
		send(c.world, d, func() bool { return c.renew(s) }, func(renewed bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case !renewed:
				s.deadline = 0
			case s.trusts():
				s.deadline = max(s.deadline, sent.Add(ttl-margin))
			}
		})
	}
}

func (c *client) trusting(s *owned) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.trusts()
}

// work joins the queue, observes the sessions in it, holds and leaves, until the session is over. Then
// the session is closed, or left to the observers.
func (c *client) work(s *owned) {
	d := newDice(c.Uint64(), 0)
	c.Go(func() { c.renewals(s, d) })
	for c.trusting(s) && c.on() {
		ask(c, func() bool { return c.join(s) })
		if c.observe(s) == s.id && c.hold(s) {
			time.Sleep(c.between(0, ttl))
			c.mu.Lock()
			s.holds = false
			c.mu.Unlock()
			left, _ := ask(c, func() bool { return c.leave(s.id) })
			if !left {
				break // it may be carried out later, when there is another entry of this session
			}
		}
		time.Sleep(c.between(tick/2, tick))
		if c.oneIn(20) {
			break
		}
	}
	c.mu.Lock()
	s.deadline, s.holds, s.disowned = 0, false, true
	c.mu.Unlock()
	c.leases.Disown(s.id)
	if c.oneIn(3) {
		ask(c, func() bool { return c.remove(s.id) })
	}
}

// observe ends what is due, reads the queue, and returns the first entry.
func (c *client) observe(s *owned) string {
	for _, due := range c.leases.Due(c.now()) {
		ask(c, func() bool { return c.end(c, s.life, due) })
	}
	read, _ := ask(c, func() reading { return c.read(s.life) })
	received := c.now()
	if read.ok {
		c.leases.Saw(received, read.all)
	}
	return read.first
}

// hold reports whether the session holds now, which it may not while another one does.
func (c *client) hold(s *owned) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.trusts() {
		return false
	}
	for _, other := range c.sessions {
		if other.holds && other.trusts() {
			c.violation("%s holds, and %s still does", s.id, other.id)
		}
	}
	s.holds = true
	c.grants++
	return true
}

// failures promotes the standby, which lags, or empties the store, now and then.
func (w *world) failures(d dice) {
	for w.on() {
		time.Sleep(d.between(ttl/2, 5*ttl))
		promote := d.oneIn(2)
		w.mu.Lock()
		if promote {
			w.promote()
		} else {
			w.empty()
		}
		w.mu.Unlock()
	}
}

// replication lets the standby copy the data, at times that are further apart now and then.
func (w *world) replication(d dice) {
	for w.on() {
		w.mu.Lock()
		w.standby = w.clone()
		w.mu.Unlock()
		time.Sleep(d.between(0, tick))
		if d.oneIn(8) {
			time.Sleep(d.between(0, ttl))
		}
	}
}

// newWorld returns a blessed store, with nothing in it. It is called in a bubble.
func newWorld() *world {
	w := &world{}
	w.life, w.lives, w.data = "life 1", 1, data{stored: "life 1", versions: map[string]int64{}}
	w.standby = w.clone()
	return w
}

// randomly has three clients work for some minutes, while the store fails or does not.
func (w *world) randomly(seed uint64, fails bool) {
	w.until = time.Now().Add(20 * ttl)
	for i, name := range []string{"a", "b", "c"} {
		d := newDice(seed, uint64(i))
		c := &client{world: w, dice: d, name: name}
		c.ahead, c.fast = d.between(0, 1000*time.Hour), d.between(-10*time.Millisecond, 10*time.Millisecond)
		w.Go(c.run)
	}
	if fails {
		w.Go(func() { w.failures(newDice(seed, 10)) })
		w.Go(func() { w.replication(newDice(seed, 11)) })
	}
	w.Wait()
}

// worlds runs many worlds, and returns what happened in all of them.
func worlds(t *testing.T, fails bool) events {
	t.Helper()
	var all events
	first, last := uint64(0), uint64(150)
	if *seedFlag >= 0 {
		first, last = uint64(*seedFlag), uint64(*seedFlag)+1
	}
	for seed := first; seed < last; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.randomly(seed, fails)
			assert.Empty(t, w.wrong, "repeat it with: go test -run %s ./internal/observed -seed %d", t.Name(), seed)
			all.grants += w.grants
			all.blessed += w.blessed
			all.ends += w.ends
			all.renewedFirst += w.renewedFirst
			all.claimsKept += w.claimsKept
		})
	}
	t.Logf("%+v", all)
	return all
}

func TestNoSessionEndsWhileItsOwnerTrustsIt(t *testing.T) {
	all := worlds(t, false)

	if *seedFlag < 0 {
		assert.Greater(t, all.grants, 1000)
		assert.Greater(t, all.ends, 1000)
		assert.Greater(t, all.renewedFirst, 1000, "a renewal comes between the sight and the end")
	}
}

func TestNothingIsBlessedWhileAHolderTrusts(t *testing.T) {
	all := worlds(t, true)

	if *seedFlag < 0 {
		assert.Greater(t, all.grants, 1000)
		assert.Greater(t, all.blessed, 500)
		assert.Greater(t, all.claimsKept, 50)
	}
}
