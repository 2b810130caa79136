package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// inside is package session as the recipes see it.
func inside() session.Inside { return session.Engine(door.Key{}) }

// mem is package membackend as tests see it.
func mem() memory.Door[membackend.Store] { return membackend.Engine(door.Key{}) }

// fixture is a service, and the sessions and requests of a trace.
type fixture struct {
	t        *testing.T
	st       *membackend.Store
	clients  map[string]*membackend.Client
	events   map[string]*events // of the clients
	sessions map[string]*session.Session
	requests map[string]*request
	cut      map[string]bool
	slow     map[string][2]time.Duration // what requests and replies take, by session
	evicted  map[int64]bool              // tokens
	most     int64                       // the highest limit so far
	counts   map[string]int              // requests by session and kind, at the last count

	mu   sync.Mutex
	news []string
}

func newFixture(t *testing.T, o memory.Options) *fixture {
	return &fixture{
		t: t, st: mem().New(o, nil), clients: map[string]*membackend.Client{}, events: map[string]*events{}, counts: map[string]int{},
		sessions: map[string]*session.Session{}, requests: map[string]*request{}, cut: map[string]bool{},
		slow: map[string][2]time.Duration{}, evicted: map[int64]bool{},
	}
}

// request is one request of a trace.
type request struct {
	name   string
	cancel context.CancelFunc
	hold   *session.Hold
	token  int64
	over   bool // the call has returned
	reads  bool // it writes no more, or never did
	weight int64
}

func (f *fixture) report(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.news = append(f.news, fmt.Sprintf(format, args...))
}

// do runs one command, lets everything settle, and returns what happened.
func (f *fixture) do(words []string) []string {
	cmd, arg := words[0], words[1]
	switch cmd {
	case "lock", "lockall", "try", "rlock", "wlock", "tryr", "tryw", "acquire", "robust":
		f.request(arg, words)
	case "downgrade":
		f.downgrade(arg)
	case "limit":
		f.limit(arg, words[2])
	case "cancel":
		f.named(arg).cancel()
	case "unlock":
		f.unlock(arg)
	case "delete", "expire":
		f.operator(cmd, arg)
	case "cut", "heal", "close":
		f.network(cmd, arg)
	case "slow":
		f.session(arg)
		f.slow[arg] = [2]time.Duration{f.duration(words[2]), f.duration(words[3])}
		f.delay(arg)
	case "blind", "see":
		f.session(arg)
		f.events[arg].sees(cmd == "see")
	case "fault":
		f.session(arg)
		f.fault(arg, fault.Kind(words[2]), fault.Op(words[3]))
	case "count":
		f.report("%s: %s", arg, f.count(fault.Op(arg), words[2:]))
	case "forget":
		f.count(fault.Op(arg), words[2:])
	case "foreign":
		mem().PutForeign(f.st, "n", arg, true)
	case "remove":
		f.st.Delete("n", arg)
	case "wait":
		time.Sleep(f.duration(arg))
	default:
		f.t.Fatalf("unknown command %q", cmd)
	}
	synctest.Wait()
	time.Sleep(time.Millisecond) // the pauses that the engine makes on purpose
	synctest.Wait()
	return f.show()
}

func (f *fixture) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	require.NoError(f.t, err)
	return d
}

// session returns the session of that name, opened when it is first named.
func (f *fixture) session(name string) *session.Session {
	if s := f.sessions[name]; s != nil {
		return s
	}
	f.clients[name] = f.st.NewClient()
	f.events[name] = &events{Backend: f.clients[name].Backend(), own: map[driver.Ref]bool{}}
	s, err := inside().Open(f.t.Context(), f.events[name], &session.Options{Label: name, Hooks: session.Hooks{
		Joined: func(_ context.Context, e session.Event) {
			f.mu.Lock()
			f.requests[strings.TrimPrefix(e.Kind, "trace ")].token = int64(e.Token)
			f.mu.Unlock()
		},
		Rejoined: func(_ context.Context, e session.Event) {
			f.report("%s lost its place", strings.TrimPrefix(e.Kind, "trace "))
		},
	}})
	require.NoError(f.t, err)
	f.sessions[name] = s
	return s
}

// fault makes the next request of a kind go wrong. A late one comes 3 s later.
func (f *fixture) fault(name string, k fault.Kind, op fault.Op) {
	require.Contains(f.t, fault.Kinds(), k)
	f.clients[name].Inject(op, k)
	if k == fault.LateRequest {
		time.AfterFunc(3*time.Second, f.clients[name].Deliver)
	}
}

// count returns how many requests of a kind sessions have sent since the last count, or
// how many events their watches have reported after the first.
func (f *fixture) count(op fault.Op, names []string) string {
	var all []string
	for _, name := range names {
		f.session(name)
		n, of := f.clients[name].Sent(op), name+string(op)
		if op == "event" {
			n = int(f.events[name].n.Load())
		}
		all = append(all, fmt.Sprint(name, " ", n-f.counts[of]))
		f.counts[of] = n
	}
	return strings.Join(all, ", ")
}

// operator deletes an entry or ends a session. It is slower than the moment after which
// an entry is watched, and does not do it to a session that no event reaches: then two
// would hold until the deadline, and nothing could help that.
func (f *fixture) operator(cmd, arg string) {
	if f.cut[arg[:1]] {
		f.report("%s is cut off", arg[:1])
		return
	}
	token := f.named(arg).token
	meant := func(e driver.Entry) bool { return e.Token == token }
	if cmd == "expire" {
		meant = func(e driver.Entry) bool { return label(e) == arg }
	}
	if f.evict(meant, false) { // it holds: its entry is watched in a moment
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	e := f.find(meant)
	f.evict(meant, cmd == "delete")
	done := false
	if cmd == "delete" {
		done = f.st.Delete("n", e.Key)
	} else {
		done = f.st.Expire(e.Session)
	}
	if !done {
		f.report("%s has no entry", arg)
	}
}

// label is the session of an entry.
func label(e driver.Entry) string {
	data := e.Data
	if e.Valued {
		data = e.Detail
	}
	meta, _ := owner.DecodeMeta(data)
	return meta.Label
}

// evict records that entries are deleted, and reports whether there are any: those that
// hold, or all. Until the event comes, the owner of a hold cannot know. A waiter that is
// deleted by hand may be granted until then; one whose session ends must not.
func (f *fixture) evict(meant func(driver.Entry) bool, all bool) (some bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries := mem().Entries(f.st, "n")
	for i, holds := range rule.Holders(entries, f.st.Limit("n")) {
		if meant(entries[i]) && (all || holds) {
			f.evicted[entries[i].Token], some = true, true
		}
	}
	return some
}

// find returns the first entry that is meant, or a zero one.
func (f *fixture) find(meant func(driver.Entry) bool) driver.Entry {
	entries := mem().Entries(f.st, "n")
	if i := slices.IndexFunc(entries, meant); i >= 0 {
		return entries[i]
	}
	return driver.Entry{}
}

// network cuts and heals the network of a session, or closes it.
func (f *fixture) network(cmd, name string) {
	s, c := f.session(name), f.clients[name]
	switch cmd {
	case "cut":
		f.cut[name] = true
		c.Cut(fault.Both)
	case "heal":
		f.cut[name] = false
		c.Heal()
		f.delay(name)
	case "close":
		go s.Close()
	}
}

// delay delays what a session sends and gets.
func (f *fixture) delay(name string) {
	f.clients[name].DelayRequests(f.slow[name][0])
	f.clients[name].Delay(f.slow[name][1])
}

// named is the request of that name; one that never was does nothing.
func (f *fixture) named(name string) *request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.requests[name]; r != nil {
		return r
	}
	return &request{name: name, cancel: func() {}, token: -1}
}

// events is a backend that counts what the watches of its sessions report, but what each
// begins with. It can be blind: then its sessions send no requests to watch own entries,
// until it sees again.
type events struct {
	driver.Backend
	n atomic.Int64

	mu    sync.Mutex
	own   map[driver.Ref]bool
	blind bool
	kept  []func() // send the requests
}

func (e *events) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := e.Backend.Open(ctx, cfg)
	return countingSession{s, e}, err
}

// sees makes it blind, or ends that.
func (e *events) sees(yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, send := range e.kept {
		send()
	}
	e.blind, e.kept = !yes, nil
}

type countingSession struct {
	driver.Session
	e *events
}

func (s countingSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	joined, err := s.Session.Join(ctx, reqs...)
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	for _, j := range joined {
		s.e.own[j.Entry.Ref] = true
	}
	return joined, err
}

func (s countingSession) Watch(t driver.Target, f func(driver.Event)) func() {
	begun := false
	report := func(ev driver.Event) {
		if begun && ev.Kind != driver.Armed {
			s.e.n.Add(1)
		}
		begun = true
		f(ev)
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if !s.e.blind || !s.e.own[t.Ref] {
		return s.Session.Watch(t, report)
	}
	over, stop := false, func() {}
	s.e.kept = append(s.e.kept, func() {
		if !over {
			stop = s.Session.Watch(t, report)
		}
	})
	return func() {
		s.e.mu.Lock()
		defer s.e.mu.Unlock()
		over = true
		stop()
	}
}
