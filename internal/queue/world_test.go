package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// world is where a trace is played.
type world struct {
	t        *testing.T
	st       *membackend.Store
	clients  map[string]*membackend.Client
	watches  map[string]*memtest.Watches // of the clients
	sessions map[string]*session.Session
	reqs     map[string]*req
	cut      map[string]bool
	slow     map[string][2]time.Duration // what requests and replies take, by session
	struck   map[int64]bool
	counts   map[string]int // requests by session and kind, at the last count

	mu   sync.Mutex
	news []string
}

// req is one request of a trace.
type req struct {
	name   string
	cancel context.CancelFunc
	hold   *session.Hold
	place  int64
	over   bool // the call has returned
	reads  bool // it will write no more, or never would
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = append(w.news, fmt.Sprintf(format, args...))
}

// do runs one command, lets everything settle, and returns what happened.
func (w *world) do(words []string) []string {
	cmd, arg := words[0], words[1]
	switch cmd {
	case "lock", "lockall", "try", "rlock", "wlock", "tryr", "tryw", "acquire", "robust":
		w.request(arg, words)
	case "downgrade":
		w.downgrade(arg)
	case "limit":
		w.limit(arg, words[2])
	case "cancel":
		w.named(arg).cancel()
	case "unlock":
		w.unlock(arg)
	case "delete", "expire":
		w.operator(cmd, arg)
	case "cut", "heal", "close":
		w.network(cmd, arg)
	case "slow":
		w.session(arg)
		w.slow[arg] = [2]time.Duration{w.duration(words[2]), w.duration(words[3])}
		w.delay(arg)
	case "fault":
		w.fault(arg, fault.Kind(words[2]), fault.Op(words[3]))
	case "count":
		w.tell("%s: %s", arg, w.count(fault.Op(arg), words[2:]))
	case "forget":
		w.count(fault.Op(arg), words[2:])
	case "foreign":
		memtest.PutForeign(w.st, "n", arg, true)
	case "remove":
		w.st.Delete("n", arg)
	case "wait":
		time.Sleep(w.duration(arg))
	default:
		w.t.Fatalf("unknown command %q", cmd)
	}
	synctest.Wait()
	time.Sleep(time.Millisecond) // the pauses that the engine makes on purpose
	synctest.Wait()
	return w.show()
}

func (w *world) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	require.NoError(w.t, err)
	return d
}

// session returns the session of that name, opened when it is first named.
func (w *world) session(name string) *session.Session {
	if s := w.sessions[name]; s != nil {
		return s
	}
	w.clients[name] = w.st.NewClient()
	w.watches[name] = memtest.CountWatches(w.clients[name].Backend())
	s, err := queue.Core().Open(w.t.Context(), w.watches[name], &session.Options{Label: name, Hooks: session.Hooks{
		Joined: func(_ context.Context, e session.Event) {
			who := strings.TrimPrefix(e.Kind, "trace ")
			w.mu.Lock()
			w.reqs[who].place = int64(e.Token)
			w.mu.Unlock()
		},
		Rejoined: func(_ context.Context, e session.Event) {
			w.tell("%s lost its place", strings.TrimPrefix(e.Kind, "trace "))
		},
	}})
	require.NoError(w.t, err)
	w.sessions[name] = s
	return s
}

// fault makes the next request of a kind go wrong. A late one comes 3 s later.
func (w *world) fault(name string, k fault.Kind, op fault.Op) {
	require.Contains(w.t, fault.Kinds(), k)
	w.session(name)
	w.clients[name].Inject(op, k)
	if k == fault.LateRequest {
		time.AfterFunc(3*time.Second, w.clients[name].Deliver)
	}
}

// count returns how many requests of a kind sessions have sent since the last
// count, or how many events their watches have told.
func (w *world) count(op fault.Op, names []string) string {
	var all []string
	for _, name := range names {
		w.session(name)
		n, of := w.clients[name].Sent(op), name+string(op)
		if op == "event" {
			n = int(w.watches[name].Told())
		}
		all = append(all, fmt.Sprint(name, " ", n-w.counts[of]))
		w.counts[of] = n
	}
	return strings.Join(all, ", ")
}

// operator deletes an entry or ends a session. The one who does it is slower
// than the moment after which an entry is watched, and does not do it to a
// session that cannot be told: then two would believe until the deadline, and
// nobody could help it.
func (w *world) operator(cmd, arg string) {
	if w.cut[arg[:1]] {
		w.tell("%s is cut off", arg[:1])
		return
	}
	place := w.named(arg).place
	meant := func(e driver.Entry) bool { return e.Place == place }
	if cmd == "expire" {
		meant = func(e driver.Entry) bool { return e.Meta.Label == arg }
	}
	if len(w.mayHold(meant)) > 0 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	e := w.find(meant)
	for _, e := range w.mayHold(meant) {
		w.strike(e.Place)
	}
	done := false
	if cmd == "delete" {
		done = w.st.Delete("n", e.Key)
	} else {
		done = w.st.Expire(e.Session)
	}
	if !done {
		w.tell("%s has no entry", arg)
	}
}

// mayHold returns those in the line that are meant and may hold: who is first, and
// readers.
func (w *world) mayHold(meant func(driver.Entry) bool) []driver.Entry {
	line := memtest.Entries(w.st, "n")
	first := driver.Ref{}
	if len(line) > 0 {
		first = line[0].Ref
	}
	return slices.DeleteFunc(line, func(e driver.Entry) bool {
		return !meant(e) || e.Ref != first && e.Mode != driver.Shared
	})
}

// strike notes that the hold at a place was taken away. Until word of it has
// travelled, its owner goes on believing, and nobody can help it.
func (w *world) strike(place int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.struck[place] = true
}

// network cuts and heals the network of a session, or closes it.
func (w *world) network(cmd, name string) {
	s, c := w.session(name), w.clients[name]
	switch cmd {
	case "cut":
		w.cut[name] = true
		c.Cut(fault.Both)
	case "heal":
		w.cut[name] = false
		c.Heal()
		w.delay(name)
	case "close":
		go s.Close()
	}
}

// delay delays what a session sends and gets.
func (w *world) delay(name string) {
	w.clients[name].DelayRequests(w.slow[name][0])
	w.clients[name].Delay(w.slow[name][1])
}

// named is the request of that name; one that never was does nothing.
func (w *world) named(name string) *req {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.reqs[name]; r != nil {
		return r
	}
	return &req{name: name, cancel: func() {}, place: -1}
}

// find returns the first entry in the line that is meant, or a zero one.
func (w *world) find(meant func(driver.Entry) bool) driver.Entry {
	line := memtest.Entries(w.st, "n")
	if i := slices.IndexFunc(line, meant); i >= 0 {
		return line[i]
	}
	return driver.Entry{}
}
