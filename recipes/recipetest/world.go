package recipetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/drivertest"
)

// name is the lock of stories that need only one.
const name = "orders/settle"

// world is the stage of one story.
type world struct {
	t   *testing.T
	h   drivertest.Harness
	svc drivertest.Service

	short time.Duration // the TTL of sessions that come to their end
}

func newWorld(t *testing.T, h drivertest.Harness) *world {
	w := &world{t: t, h: h, svc: h.Service(t), short: h.TTL}
	w.h.TTL = cmp.Or(h.Calm, h.TTL)
	return w
}

// patience is how long a story waits for what must come.
func (w *world) patience() time.Duration { return patienceOf(w.h.TTL) }

func patienceOf(ttl time.Duration) time.Duration { return 3*ttl + 5*time.Second }

// soon is a context for what must come.
func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), w.patience())
	w.t.Cleanup(cancel)
	return ctx
}

// party is a session on a network of its own.
type party struct {
	*session.Session
	w      *world
	net    drivertest.Client
	joined chan session.Token

	mu       sync.Mutex
	rejoined []session.Event
}

// party opens a session, which is closed at the end of the story.
func (w *world) party(label string) *party { return w.open(label, w.h.TTL) }

// mortal is a party whose session comes to its end in the story, and need not be
// waited for as long as the others have to live.
func (w *world) mortal(label string) *party { return w.open(label, w.short) }

func (w *world) open(label string, ttl time.Duration, change ...func(*session.Options)) *party {
	w.t.Helper()
	p := &party{w: w, net: w.svc.Client(w.t), joined: make(chan session.Token, 1000)}
	o := session.Options{
		TTL: ttl, Label: label, Logger: w.logger(label),
		Hooks: session.Hooks{
			Joined: func(e session.Event) { p.joined <- e.Token },
			Rejoined: func(e session.Event) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.rejoined = append(p.rejoined, e)
			},
		},
	}
	for _, c := range change {
		c(&o)
	}
	s, err := session.Open(w.soon(), p.net.Backend(), &o)
	require.NoError(w.t, err, "open")
	p.Session = s
	w.t.Cleanup(func() {
		p.net.Heal()
		assert.NoError(w.t, s.Close(), "close")
	})
	return p
}

// logger writes into the log of the test, which is shown if the story fails.
func (w *world) logger(label string) *slog.Logger {
	h := slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(h).With("party", label)
}

func (w *world) parties(n int) []*party {
	ps := make([]*party, n)
	for i := range ps {
		ps[i] = w.party(fmt.Sprint("p", i))
	}
	return ps
}

// rests waits until the party has sent nothing for longer than a hold lasts before
// its entry is watched, and returns how many requests it has sent so far. In virtual
// time, where nothing is played again, that is longer than a hold lasts before its
// grant is recorded.
func (p *party) rests() int {
	long := p.w.h.TTL / 20
	if p.w.h.Virtual {
		long = max(long, 2*time.Second)
	}
	for sent := -1; ; {
		now := p.net.Requests()
		if now == sent {
			return sent
		}
		sent = now
		time.Sleep(long)
	}
}

// takes requires that a play takes so many requests, which it returns. In real
// time one of before may be made again meanwhile, if the machine stood still, but
// not every time.
func (w *world) takes(want int, why string, play func() int) {
	w.t.Helper()
	tries := 3
	if w.h.Virtual {
		tries = 1
	}
	took := play()
	for n := 1; n < tries && took != want; n++ {
		took = play()
	}
	require.Equal(w.t, want, took, "requests: %s", why)
}

// sends requires that an act sends so many requests.
func (p *party) sends(want int, why string, act func()) {
	p.w.t.Helper()
	p.w.takes(want, why, func() int {
		before := p.rests()
		act()
		return p.net.Requests() - before
	})
}

// costsTwo checks that who is alone needs one round trip to hold, and one to give
// back.
func (p *party) costsTwo(lock func() *session.Hold) {
	p.w.t.Helper()
	var h *session.Hold
	costs := p.w.h.Costs(p.net, func() { h = lock() }, func() { p.w.unlock(h) })
	assert.Equal(p.w.t, []int{1, 1}, costs, "round trips to hold, and to give back")
}

// hold locks, and ends the story if it cannot.
func (p *party) hold() *session.Hold {
	p.w.t.Helper()
	h, err := mutex.New(p.Session, name).Lock(p.w.soon())
	require.NoError(p.w.t, err, "lock")
	<-p.joined
	return h
}

// request is a Lock, or one of its kind, under way.
type request struct {
	w     *world
	token session.Token // of its place when it had joined
	done  chan struct{}
	hold  *session.Hold
	err   error
	at    time.Time // when Lock returned
}

// lock is what a request of a mutex does.
func lock(ctx context.Context, s *session.Session) (*session.Hold, error) {
	return mutex.New(s, name).Lock(ctx)
}

// queue starts a Lock and returns when it stands in the line.
func (p *party) queue(ctx context.Context) *request {
	p.w.t.Helper()
	return p.queueFor(ctx, lock)
}

// queueFor starts a request for any lock and returns when it stands in the line.
func (p *party) queueFor(ctx context.Context, want func(context.Context, *session.Session) (*session.Hold, error)) *request {
	p.w.t.Helper()
	r := p.askFor(ctx, want)
	select {
	case r.token = <-p.joined:
	case <-time.After(p.w.patience()):
		require.Fail(p.w.t, "has not joined")
	}
	return r
}

// ask starts a Lock.
func (p *party) ask(ctx context.Context) *request { return p.askFor(ctx, lock) }

// askFor starts a request for any lock.
func (p *party) askFor(ctx context.Context, want func(context.Context, *session.Session) (*session.Hold, error)) *request {
	r := &request{w: p.w, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.hold, r.err = want(ctx, p.Session)
		r.at = time.Now()
	}()
	return r
}

// granted returns the hold, and ends the story if there is none.
func (r *request) granted() *session.Hold {
	r.w.t.Helper()
	r.returned()
	require.NoError(r.w.t, r.err, "lock")
	return r.hold
}

// returned waits until Lock has returned.
func (r *request) returned() {
	r.w.t.Helper()
	select {
	case <-r.done:
	case <-time.After(r.w.patience()):
		require.Fail(r.w.t, "Lock has not returned")
	}
}

// names requires of a request that was cancelled that its error says who holds.
// It is kept for 25 ms to learn that, so one that took longer may not know.
func (r *request) names(who string, cancelled time.Time) {
	r.w.t.Helper()
	if took := r.at.Sub(cancelled); took < 25*time.Millisecond {
		assert.Contains(r.w.t, r.err.Error(), who, "after %s", took)
	}
}

// waiting says that Lock has not returned.
func (r *request) waiting() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// told is when a hold's context ended; zero while it has not.
type told struct {
	done chan struct{}
	at   time.Time
}

func tell(h *session.Hold) *told {
	x := &told{done: make(chan struct{})}
	context.AfterFunc(h.Context(), func() {
		x.at = time.Now()
		close(x.done)
	})
	return x
}

// when waits for the end of the context and returns its time.
func (w *world) when(x *told) time.Time {
	w.t.Helper()
	select {
	case <-x.done:
	case <-time.After(w.patience()):
		require.Fail(w.t, "the hold was not told")
	}
	return x.at
}

// eventually waits until the line has that many entries.
func (w *world) eventually(n int, why string) {
	w.t.Helper()
	deadline := time.Now().Add(w.patience())
	for w.svc.Count(w.t, name) != n {
		if time.Now().After(deadline) {
			require.Equal(w.t, n, w.svc.Count(w.t, name), why)
		}
		time.Sleep(w.h.TTL / 200) // asking again is all one can do from outside
	}
}

// ofStory labels goroutines with the story that has begun them; those that they
// begin inherit it.
const ofStory = "story"

// begun counts the goroutines that live and are labelled with this story. There
// are others in the process, of stories that are played at the same time.
func (w *world) begun() (n int) {
	w.t.Helper()
	var profile bytes.Buffer
	require.NoError(w.t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	label := fmt.Sprintf("%q:%q", ofStory, w.t.Name())
	same := 0 // so many goroutines are alike, says the first line on them
	for line := range strings.Lines(profile.String()) {
		if count, _, is := strings.Cut(line, " @ "); is {
			var err error
			same, err = strconv.Atoi(count)
			require.NoError(w.t, err)
		} else if strings.HasPrefix(line, "# labels:") && strings.Contains(line, label) {
			n += same
		}
	}
	return n
}

// unlock gives back, and ends the story if that fails. That there was no answer for
// a second is no failure, where a machine may stand still for as long.
func (w *world) unlock(h *session.Hold) {
	w.t.Helper()
	err := h.Unlock()
	if w.h.Virtual || !errors.Is(err, session.ErrReleasePending) || driver.Incurable(err) {
		require.NoError(w.t, err, "unlock")
	}
}

// entries is the line as p sees it.
func (p *party) entries() []driver.Entry {
	p.w.t.Helper()
	line, err := p.Queue(p.w.soon(), name)
	require.NoError(p.w.t, err, "queue")
	return line
}
