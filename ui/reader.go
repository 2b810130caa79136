package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/session"
)

const (
	// mostReads is how many queues a tick reads, at most, and mostAsks of how many of them
	// it reads the yield requests.
	mostReads = 256
	mostAsks  = 32

	// mostEntries is how many entries ticks read on average, at most: on some services each
	// entry is a request. A longer queue is read in one tick, and then not in the next ones.
	mostEntries = 4096

	// wantedFor is for how long a lock counts as shown after a page has asked for it, and
	// wantedBefore by how much earlier it is read than others. It is bounded, so that a
	// long queue that is shown does not keep the others from being read.
	wantedFor    = 15 * time.Second
	wantedBefore = 10 * time.Second

	// readTimeout bounds a tick.
	readTimeout = 10 * time.Second

	// mostTicks is how many ticks are kept for pages that are slow, and longestTick how
	// long one may be: for a longer one pages load the whole state, which is compressed.
	mostTicks   = 8
	longestTick = 256 << 10

	// mostPages is how many pages may be open at once, and mostOfOne how many of one
	// address, so that one client does not shut out all others.
	mostPages = 1000
	mostOfOne = 250
)

var (
	errClosed  = errors.New("the session is closed")
	errTooMany = fmt.Errorf("%d pages are open, more than that are not served", mostPages)
	errTooBusy = fmt.Errorf("%d pages of this address are open, more than that are not served", mostOfOne)
)

// reader reads the service for all pages. See the package comment.
type reader struct {
	s        *session.Session
	inner    *engine.Engine
	prefix   string
	interval time.Duration
	soon     chan struct{} // holds one: read now

	mu      sync.Mutex
	pages   int
	from    map[string]int     // pages by the address of the client; none is 0
	stop    context.CancelFunc // of the running goroutine
	done    chan struct{}      // closed when the newest goroutine has ended
	changed chan struct{}      // closed and made anew at every tick
	closed  bool               // the Session is
	board   *board
	status  status
	seq     uint64   // of the newest tick
	ticks   [][]byte // the newest last; nil stands for one that is too long
	names   []string // as of the newest read of the names, with those that a page found since
	resting int      // ticks until the names are read again
	wanted  map[string]time.Time
	picked  map[string]int    // by the names that were answered last: the round in which a queue was last picked; 0 if never
	failed  map[string]string // why the last read of a queue was denied or refused
	round   int               // of the newest pick
	credit  int               // how many entries may be read now
}

func newReader(s *session.Session, prefix string, interval time.Duration) *reader {
	return &reader{
		s: s, inner: session.Engine(door.Key{}).Of(s), prefix: prefix, interval: interval, soon: make(chan struct{}, 1),
		changed: make(chan struct{}), board: newBoard(), from: map[string]int{}, wanted: map[string]time.Time{}, failed: map[string]string{},
	}
}

// now is the time of day by the Session's clock.
func (r *reader) now() time.Time { return r.inner.Clock().Wall() }

// join opens a page of a client. leave must be called when it is left, and returns when the reader
// has ended, if it was the last page.
func (r *reader) join(ctx context.Context, client string) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.s.Health().Err, session.ErrClosed) {
		r.closed = true
	}
	switch {
	case r.closed:
		return nil, errClosed
	case r.pages == mostPages:
		return nil, errTooMany
	case r.from[client] == mostOfOne:
		return nil, errTooBusy
	}
	r.pages++
	r.from[client]++
	if r.pages == 1 {
		r.resting = 0
		if r.status.Since != 0 { // without a page no tick has seen whether the service answers
			m := tickMsg{Status: r.status}
			m.Status.Since, m.Status.Err = 0, ""
			r.publish(&m)
		}
		before, done := r.done, make(chan struct{})
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		r.stop, r.done = stop, done
		go func() { // ends when the last page leaves, which waits for it
			defer close(done)
			if before != nil {
				<-before // it was stopped
			}
			r.run(reading)
		}()
	}
	return func() { r.leave(client) }, nil
}

func (r *reader) leave(client string) {
	r.mu.Lock()
	r.pages--
	r.from[client]--
	if r.from[client] == 0 {
		delete(r.from, client)
	}
	last, done := r.pages == 0, r.done
	if last {
		r.stop()
	}
	r.mu.Unlock()
	if last {
		<-done
	}
}

// run reads until ctx ends or the Session is closed: at every interval, and at most once
// between two of these when a page is in a hurry.
func (r *reader) run(ctx context.Context) {
	t := time.NewTicker(r.interval)
	defer t.Stop()
	soon := r.soon
	for r.tick(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			soon = r.soon
		case <-soon:
			soon = nil
		}
	}
}

// hurry asks for a read without waiting for the next tick.
func (r *reader) hurry() {
	select {
	case r.soon <- struct{}{}:
	default: // it is asked for already
	}
}

// tick reads once and publishes what has changed. It returns false when reading is over.
func (r *reader) tick(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := r.now()
	var answers []answer
	all := false
	names, fresh, err := r.named(bounded)
	if err == nil {
		answers, all = r.pick(names, fresh, began)
		err = r.read(bounded, answers)
	}
	if ctx.Err() != nil {
		return false
	}
	now := r.now()
	m := tickMsg{Status: status{Now: now.UnixMilli(), Health: r.health()}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range answers {
		a := &answers[i]
		switch {
		case a.failed != "":
			r.failed[a.name] = a.failed
			all = false
		case a.ok:
			delete(r.failed, a.name)
		}
		if a.ok && !a.gone {
			r.credit -= len(a.cards) - a.assumed
		}
		if a.unlisted && len(a.cards) > 0 {
			r.names = append(r.names, a.name)
		}
	}
	m.Status.Unread, m.Status.Why = r.unread()
	m.Status.At, m.Status.Since = r.status.At, r.status.Since
	switch {
	case err == nil:
		m.Status.At, m.Status.Since = now.UnixMilli(), 0
		m.All = all
	default:
		m.Status.Err = plain(oneLine(err))
		if m.Status.Since == 0 {
			m.Status.Since = began.UnixMilli()
		}
		r.closed = errors.Is(err, session.ErrClosed)
	}
	r.board.take(answers, &m, now)
	if m.All {
		m.Read = nil
	}
	r.publish(&m)
	return !r.closed
}

// read reads the queues of answers.
func (r *reader) read(ctx context.Context, answers []answer) error {
	asks := map[string]bool{} // of the locks that pages show: whether the yield requests are read
	r.mu.Lock()
	for name := range r.wanted {
		asks[name] = len(asks) < mostAsks
	}
	r.mu.Unlock()
	err := inspect.Each(ctx, len(answers), func(ctx context.Context, i int) error {
		a := &answers[i]
		if a.gone {
			return nil
		}
		queue, entries, err := inspect.Both(ctx, r.s, a.name)
		read, shown := asks[a.name]
		a.unasked = shown && !read
		if err == nil && read {
			queue.Asks, err = inspect.Asks(ctx, r.s, a.name)
		}
		switch {
		case inspect.OfQueue(err):
			a.failed = plain(oneLine(err))
			return nil
		case err != nil:
			return err //nolint:wrapcheck // it names the lock
		}
		a.cards, a.hidden = cardsOf(queue, entries, r.prefix)
		a.queue, a.asks, a.at, a.ok = queue, asksOf(queue.Asks), r.now(), true
		return nil
	})
	return err //nolint:wrapcheck // it names the lock
}

// publish publishes a tick to all pages. The caller holds r.mu.
func (r *reader) publish(m *tickMsg) {
	r.seq++
	m.Seq, r.status = r.seq, m.Status
	text, err := json.Marshal(m)
	if err != nil || len(text) > longestTick { // strings and integers cannot fail
		text = nil
	}
	r.ticks = append(r.ticks, text)
	if len(r.ticks) > mostTicks {
		r.ticks = slices.Delete(r.ticks, 0, 1)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// after returns the ticks after one, and what to wait for if there are none. It returns
// false if one of them is not kept: the page must load the whole state. over reports that
// there will be no further ticks.
func (r *reader) after(seq uint64) (ticks [][]byte, newest uint64, kept, over bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := r.seq - seq
	if missing > uint64(len(r.ticks)) {
		return nil, r.seq, false, r.closed, r.changed
	}
	ticks = slices.Clone(r.ticks[len(r.ticks)-int(missing):])
	return ticks, r.seq, !slices.ContainsFunc(ticks, func(t []byte) bool { return t == nil }), r.closed, r.changed
}

// current returns the number of the newest tick, and whether the Session is closed.
func (r *reader) current() (seq uint64, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seq, r.closed
}

// whole writes all that is known into w, and returns it as JSON.
func (r *reader) whole(w *wholeState) (seq uint64, closed bool, text []byte, err error) {
	r.mu.Lock()
	w.Seq, w.Status, w.Locks, w.Waits = r.seq, r.status, r.board.all(), r.board.waits
	if r.seq == 0 {
		w.Status.Health = r.health()
	}
	closed = r.closed
	if closed && w.Status.Err == "" {
		w.Status.Err = errClosed.Error()
	}
	r.mu.Unlock()
	text, err = json.Marshal(w)
	return w.Seq, closed, text, err //nolint:wrapcheck // strings and integers cannot fail
}

// health returns the health of the Session.
func (r *reader) health() health {
	h, meta := r.s.Health(), r.inner.Meta()
	out := health{
		Ready: h.Ready, Since: millis(h.Since), Left: h.Left.Milliseconds(), TTL: r.s.Options().TTL.Milliseconds(),
		Host: plain(meta.Host), PID: meta.PID, Label: plain(meta.Label),
	}
	if h.Err != nil {
		out.Err = plain(oneLine(h.Err))
	}
	return out
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
