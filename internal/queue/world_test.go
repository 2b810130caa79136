package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
	sessions map[string]*session.Session
	reqs     map[string]*req
	cut      map[string]bool
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
	case "lock", "lockall", "try":
		w.request(arg, cmd)
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
		w.clients[arg].Delay(w.duration(words[2]), w.duration(words[3]))
	case "fault":
		w.fault(arg, words[2], membackend.Op(words[3]))
	case "count":
		w.tell("%s: %s", arg, w.count(membackend.Op(arg), words[2:]))
	case "forget":
		w.count(membackend.Op(arg), words[2:])
	case "foreign":
		w.st.PutForeign("n", arg, true)
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

// watchful is a rule that waits for everybody at once. So several seats wait for
// one entry, which is the nearest of one of them only.
func watchful(a queue.Ahead, _ driver.Entry) queue.Verdict {
	if len(a.Entries) == 0 {
		return queue.Verdict{Hold: a.Complete, More: !a.Complete}
	}
	var v queue.Verdict
	for _, e := range a.Entries {
		v.Wait = append(v.Wait, e.Ref)
	}
	return v
}

// request starts a request of the session that is its first letter.
func (w *world) request(name, how string) {
	s := w.session(name[:1])
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &req{name: name, cancel: cancel}
	w.mu.Lock()
	w.reqs[name] = r
	w.mu.Unlock()
	rule := queue.Mutex()
	if how == "lockall" {
		rule = queue.Rule{Decide: watchful}
	}
	go func() {
		h, err := queue.Acquire(ctx, s, queue.Request{
			Name: "n", Kind: "trace " + name, Rule: rule, Mode: driver.Exclusive, Try: how == "try",
		})
		w.mu.Lock()
		r.hold, r.over = h, true
		w.mu.Unlock()
		if err != nil {
			w.tell("%s %s", name, short(err))
			return
		}
		w.tell("%s granted", name)
		context.AfterFunc(h.Context(), func() {
			if err := context.Cause(h.Context()); !errors.Is(err, session.ErrUnlocked) {
				w.tell("%s %s", name, short(err))
			}
		})
	}()
}

// session returns the session of that name, opened when it is first named.
func (w *world) session(name string) *session.Session {
	if s := w.sessions[name]; s != nil {
		return s
	}
	w.clients[name] = w.st.NewClient()
	s, err := w.clients[name].Open(w.t.Context(), &session.Options{Label: name, Hooks: session.Hooks{
		Joined: func(e session.Event) {
			who := strings.TrimPrefix(e.Kind, "trace ")
			w.mu.Lock()
			w.reqs[who].place = int64(e.Token)
			w.mu.Unlock()
		},
		Rejoined: func(e session.Event) { w.tell("%s lost its place", strings.TrimPrefix(e.Kind, "trace ")) },
	}})
	require.NoError(w.t, err)
	w.sessions[name] = s
	return s
}

// fault makes the next request of a kind go wrong.
func (w *world) fault(name, how string, op membackend.Op) {
	w.session(name)
	c := w.clients[name]
	switch how {
	case "lose-request":
		c.LoseRequest(op)
	case "lose-reply":
		c.LoseReply(op)
	case "break-reply":
		c.BreakReply(op)
	case "late-request":
		c.LateRequest(op, 3*time.Second)
	default:
		w.t.Fatalf("unknown fault %q", how)
	}
}

// count returns how many requests of a kind sessions have sent since the last
// count.
func (w *world) count(op membackend.Op, names []string) string {
	var all []string
	for _, name := range names {
		w.session(name)
		n, of := w.clients[name].Requests(op), name+string(op)
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
	if line := w.st.Entries("n"); len(line) > 0 && meant(line[0]) { // it may hold
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	e := w.find(meant)
	if line := w.st.Entries("n"); len(line) > 0 && line[0].Ref == e.Ref {
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
		c.Cut(membackend.Both)
	case "heal":
		w.cut[name] = false
		c.Heal()
	case "close":
		go s.Close()
	}
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

func (w *world) unlock(name string) {
	r := w.named(name)
	if r.hold == nil {
		w.tell("%s holds nothing", name)
		return
	}
	if err := r.hold.Unlock(); err != nil {
		w.tell("%s unlock: %s", name, short(err))
	}
	r.hold = nil
}

// find returns the first entry in the line that is meant, or a zero one.
func (w *world) find(meant func(driver.Entry) bool) driver.Entry {
	line := w.st.Entries("n")
	if i := slices.IndexFunc(line, meant); i >= 0 {
		return line[i]
	}
	return driver.Entry{}
}

// show returns what happened, and the line.
func (w *world) show() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := w.news
	w.news = nil
	slices.Sort(news)
	var line []string
	believed := 0
	for _, e := range w.st.Entries("n") {
		who := e.Key
		for _, r := range w.reqs {
			if r.place == e.Place {
				who = r.name
			}
		}
		line = append(line, who)
	}
	for _, r := range w.reqs {
		if r.hold == nil || r.hold.Valid() == 0 || w.struck[r.place] {
			continue
		}
		believed++
		if i := slices.Index(line, r.name); i >= 0 {
			line[i] += "*"
		} else {
			line = append(line, "!"+r.name+"*") // believes, and has no entry
		}
	}
	if believed > 1 {
		news = append(news, "TWO HOLD")
	}
	if len(line) == 0 {
		line = []string{"(empty)"}
	}
	return append(news, "line: "+strings.Join(line, " "))
}

// short names an error by what callers branch on.
func short(err error) string {
	var lost *session.LostError
	if errors.As(err, &lost) {
		return "lost: " + string(lost.Reason)
	}
	for _, e := range []error{
		session.ErrNotAcquired, session.ErrForeignKey, session.ErrClosed,
		session.ErrReleasePending, session.ErrUnlocked, session.ErrLost,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return err.Error()
}
