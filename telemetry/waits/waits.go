// Package waits shows which calls of a process wait for a lock now: with their Go stacks,
// the longest first, like the pages below /debug/pprof.
//
//	table := waits.New()
//	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{Session: session.Options{Hooks: table.Hooks()}})
//	mux.Handle("/debug/fairlock/waits", table)
//
// Where the stacks of all goroutines show that a thousand of them are in Mutex.Lock, the
// table shows for which lock, since when, at which place of its queue, and whether another
// call of the same process holds that lock, with the stack of that call.
//
// # What it costs
//
// Each request costs its caller one runtime.Callers and an entry of a list: one to three
// microseconds in a loop, with the depth of the stack, and up to seven between requests to a
// service, when the caches of the processor are cold. The other hooks take half a microsecond
// each, in the goroutine of the Session that calls hooks. A request that waits or holds takes
// about half a kilobyte. The page shows a bounded number of requests, and the lists are locked
// only while these are copied. So a hundred thousand waiters are no problem: they take 50 MB
// here, a sixth of what they take elsewhere.
//
// # Labels of goroutines
//
// The table never changes the labels of a goroutine (package runtime/pprof): hooks cannot
// restore what they would replace, because runtime/pprof does not return it. So the labels
// that the caller has set are the same during and after Lock. Those that its context
// carries, as in pprof.Do, are shown with the request and are labels in the profile. To find
// waiting goroutines by lock in the profile of all goroutines, set labels around the call:
// see the example of Table.
package waits

import (
	"container/list"
	"context"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
)

// deepest is how many frames of a stack are kept.
const deepest = 32

// Table knows the requests of a process that wait, and those that hold. It is made by New
// and safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	waits *list.List // of *request, in the order of their starts
	holds *list.List // of *request, in the order of their grants
}

// request is a request that waits or holds.
type request struct {
	name   string
	names  []string // of LockAll
	kind   string
	mode   session.Mode
	weight int64
	since  time.Time
	stack  []uintptr
	labels []string // those of the caller's context: key, value, key, value

	// The fields below are guarded by the mutex of the Table.
	at       *list.Element // nil when the request is over
	session  string
	token    session.Token
	joined   bool
	ahead    int
	rejoined int
	granted  time.Time
}

// New returns an empty Table.
func New() *Table { return &Table{waits: list.New(), holds: list.New()} }

// key is the key of a request in a context. Each Table has a key of its own.
type key struct{ t *Table }

// Hooks returns the hooks that fill the Table. One Table may serve any number of Sessions.
// To use other hooks with them, call each of these with the same arguments, and go on with
// the context that Started returned: without it a request stays in the Table for ever.
//
// A request is in the Table from Started on, and leaves it with Ended, Released or Lost,
// which come a moment later than what they report: see session.Hooks. While another hook of
// the Session blocks, the Table shows what was.
func (t *Table) Hooks() session.Hooks {
	over := func(ctx context.Context, _ session.Event) { t.remove(ctx) }
	return session.Hooks{
		Started:  t.started,
		Joined:   t.moved,
		Position: t.moved,
		Rejoined: t.rejoined,
		Ended:    t.ended,
		Released: over,
		Lost:     over,
	}
}

// started adds a request. It runs in the goroutine that has called Lock, so the stack that
// it takes is the one at which that waits.
func (t *Table) started(ctx context.Context, e session.Event) context.Context {
	r := &request{name: e.Name, names: e.Names, kind: e.Kind, mode: e.Mode, weight: e.Weight, since: e.At}
	var stack [deepest]uintptr
	n := runtime.Callers(2, stack[:])
	r.stack = append(r.stack, stack[:n]...)
	pprof.ForLabels(ctx, func(k, v string) bool {
		r.labels = append(r.labels, k, v)
		return true
	})
	t.mu.Lock()
	r.at = t.waits.PushBack(r)
	t.mu.Unlock()
	return context.WithValue(ctx, key{t}, r)
}

// of returns the request of a context, or nil.
func (t *Table) of(ctx context.Context) *request {
	r, _ := ctx.Value(key{t}).(*request)
	return r
}

// moved takes in that a request has a place.
func (t *Table) moved(ctx context.Context, e session.Event) {
	r := t.of(ctx)
	if r != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		r.joined, r.session, r.token, r.ahead = true, e.Session, e.Token, e.Ahead
	}
}

// rejoined takes in that a request has lost its place.
func (t *Table) rejoined(ctx context.Context, _ session.Event) {
	r := t.of(ctx)
	if r != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		r.joined = false
		r.rejoined++
	}
}

// ended takes in the outcome of a request.
func (t *Table) ended(ctx context.Context, e session.Event) {
	r := t.of(ctx)
	if e.Outcome != session.OutcomeGranted || r == nil {
		t.remove(ctx)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.at != nil {
		t.waits.Remove(r.at)
		r.session, r.token, r.granted = e.Session, e.Token, e.At
		r.at = t.holds.PushBack(r)
	}
}

// remove removes a request that is over. Its hold's context, which lives for as long as
// the program keeps it, keeps no stack.
func (t *Table) remove(ctx context.Context) {
	r := t.of(ctx)
	if r == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.at != nil { // a list ignores an element of another one
		t.waits.Remove(r.at)
		t.holds.Remove(r.at)
		*r = request{}
	}
}
