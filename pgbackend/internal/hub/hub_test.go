package hub

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/fakepg"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

const mine, theirs = 7, 8

var (
	stored  = layout.Layout{Schema: "s", Root: "r"}.Queue("q")             // of all watches
	channel = layout.Channel("secret", stored)                             // of the queue
	entry   = driver.Ref{Queue: "q", Key: layout.Key(theirs, 5), Place: 5} // of another client
)

// world is a hub and its server. Requests and events have the time since the start.
type world struct {
	*Hub
	server *fakepg.Server
	clock  fakepg.Clock
	began  time.Time

	mu       sync.Mutex
	log      bytes.Buffer
	requests []step
	events   []step
	ended    []observed.Sight
	over     int

	pooled   bool       // the number of the server's process is another one than at login
	deaf     bool       // notifications are lost
	answered *int16     // the marks of the entry; nil: it is gone
	stamp    int64      // its data, or that of another target
	alive    bool       // the life is the session's
	sights   [][3]int64 // of Observe: id, version, TTL in ms
	refusal  string     // of a row in table watcher
}

type step struct {
	what string
	at   time.Duration
}

// newWorld starts a hub on a server where the entry is there. change is called before the start.
func newWorld(t *testing.T, change func(w *world)) *world {
	t.Helper()
	marks := int16(0)
	w := &world{clock: fakepg.NewClock(), began: time.Now(), answered: &marks, alive: true}
	l := layout.Layout{Schema: "s", Root: "r"}
	texts := l.NewTexts(layout.Life{System: "1", Timeline: "00000001", Started: 5}, "secret")
	w.server = &fakepg.Server{Answer: func(c *fakepg.Conn, sql string, _ []string) fakepg.Reply {
		w.mu.Lock()
		defer w.mu.Unlock()
		what := map[string]string{
			texts.States: "states", texts.Observe: "observe", texts.Watcher: "watcher", texts.Lock: "lock", "select pg_backend_pid()": "pid",
		}[sql]
		if what == "" {
			what = sql
		}
		w.requests = append(w.requests, step{what, time.Since(w.began)})
		switch what {
		case "pid":
			if w.pooled {
				return fakepg.Rows(int64(c.Pid) + 1000)
			}
			return fakepg.Rows(int64(c.Pid))
		case "states":
			if w.answered == nil {
				return fakepg.Rows(w.alive, 1, nil, 0, 0)
			}
			return fakepg.Rows(w.alive, 1, int64(*w.answered), w.stamp, 0)
		case "observe":
			r := fakepg.Reply{Columns: 3}
			for _, s := range w.sights {
				r.Rows = append(r.Rows, []any{s[0], s[1], s[2]})
			}
			return r
		case "watcher":
			return fakepg.Reply{Code: w.refusal, Tag: "INSERT 0 1"}
		}
		return fakepg.Reply{Tag: "OK"}
	}}
	c := Config{
		Dial: func(ctx context.Context, noted func(*pgconn.Notification)) (*pgx.Conn, error) {
			config := w.server.Config()
			config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { noted(n) }
			return pgx.ConnectConfig(ctx, config)
		},
		Notify: func(_ context.Context, channel string) error {
			if !w.deaf {
				w.server.Notify(channel, "")
			}
			return nil
		},
		Clock: w.clock, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Layout: l, Texts: texts, Secret: "secret",
		Tick: 250 * time.Millisecond, Session: mine, Floor: func(string) int64 { return 0 }, Owns: func(id string) bool { return id == layout.SessionID(mine) },
		End: func(_ context.Context, due observed.Sight) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, due)
			w.sights = nil
			return nil
		},
		Over: func() {
			w.set(func() { w.over++ })
			w.Stop()
		},
	}
	change(w)
	w.Hub = New(c)
	t.Cleanup(func() {
		w.Stop()
		w.Wait()
		<-time.After(time.Minute) // connections that were given up are closed by then
	})
	return w
}

// watch watches a target, and returns the end of the watch.
func (w *world) watch(target driver.Target) func() {
	return w.Watch(target, func(e driver.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		text := map[driver.EventKind]string{driver.Armed: "armed", driver.Changed: "changed", driver.Gone: "gone", driver.Lost: "lost"}[e.Kind]
		if e.First {
			text += " first"
		}
		w.events = append(w.events, step{text, time.Since(w.began)})
	})
}

// set changes what the server answers.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// passes lets time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func whats(all []step) []string {
	var texts []string
	for _, s := range all {
		texts = append(texts, s.what)
	}
	return texts
}

// seen returns the events so far.
func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return whats(w.events)
}

// asked returns the times of requests of one kind.
func (w *world) asked(what string) (all []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.what == what {
			all = append(all, r.at)
		}
	}
	return all
}

func TestAStateIsReadAfterItsChannelIsListenedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		w.watch(entry.Target())
		passes(time.Millisecond)

		assert.Equal(t, []string{"armed"}, w.seen())
		listens := "listen " + layout.EntryChannel(channel, 5) + ";"
		require.Equal(t, []string{"pid", listens, "lock", "watcher", "states", "observe"}, whats(w.requests))
		w.server.Notify(layout.EntryChannel(channel, 5), "g10")
		passes(time.Millisecond)
		assert.Equal(t, []string{"armed", "gone first"}, w.seen())
	})
}

func TestANoticeThatWasLostCostsOneRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		w.watch(entry.Target())
		passes(time.Second)
		w.set(func() { w.answered = nil })
		passes(recheck)
		assert.Equal(t, []string{"armed", "gone"}, w.seen())
	})
}

func TestAWatchThatWaitsReadsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		w.watch(driver.Ref{Queue: "q", Key: layout.Key(mine, 5), Place: 5}.Target()) // an own one: it waits for no other
		passes(time.Minute)
		assert.LessOrEqual(t, len(w.asked("states")), 7)
		assert.LessOrEqual(t, len(w.asked("observe")), 31, "it looks for what has died behind it")
		assert.Equal(t, []string{"armed"}, w.seen())
	})
}

func TestAConnectionThatBreaksIsReportedAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		w.watch(entry.Target())
		passes(time.Second)
		w.server.Cut()
		passes(time.Second)
		assert.Equal(t, []string{"armed", "lost", "armed"}, w.seen())
		assert.Len(t, w.asked("pid"), 2)
	})
}

// A pooler that lends its connections for a transaction accepts LISTEN, and passes nothing on.
func TestADeafPoolerIsFoundOutWithinASecondAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.pooled, w.deaf = true, true })
		w.watch(entry.Target())
		passes(time.Second + 10*time.Millisecond)
		assert.Equal(t, []string{"armed"}, w.seen())
		w.set(func() { w.answered = nil })
		passes(near)
		assert.Equal(t, []string{"armed", "gone"}, w.seen(), "it is polled")

		w.set(func() { w.answered = new(int16) })
		w.watch(driver.Ref{Queue: "q", Key: layout.Key(theirs, 6), Place: 6}.Target())
		passes(3*again + time.Minute)
		assert.GreaterOrEqual(t, len(w.asked("pid")), 3, "it is tried again now and then")
		assert.Equal(t, 1, strings.Count(w.log.String(), "notifications do not arrive"))
		assert.NotContains(t, w.log.String(), "not reported for now", "it is no outage")
	})
}

func TestAPoolerOfSessionsIsNotPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.pooled = true })
		w.watch(entry.Target())
		passes(30 * time.Second)
		assert.LessOrEqual(t, len(w.asked("states")), 4)
		assert.NotContains(t, w.log.String(), "do not arrive")
		assert.Equal(t, []string{"armed"}, w.seen())
	})
}

func TestThePollIsFastNearTheHeadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ahead := range []int{0, nearAhead, nearAhead + 1} {
			l := &link{polls: true, h: &Hub{Config: Config{Session: mine}}}
			w := &watch{target: entry.Target(), session: theirs}
			want := near
			if ahead > nearAhead {
				want = far
			}
			assert.Equal(t, want, l.pause(0, w, state{ahead: ahead}), "%d ahead", ahead)
			w.session = mine
			assert.Equal(t, far, l.pause(0, w, state{ahead: ahead}), "what is ours changes by ourselves")
		}
	})
}

// The end of an own entry is then reported before that of the entry ahead.
func TestAPollReadsTheOwnEntryBeforeTheOneAhead(t *testing.T) {
	w := func(session, place int64) *watch {
		target := driver.Ref{Queue: "q", Key: layout.Key(session, place), Place: place}.Target()
		return &watch{target: target, session: session, place: place, queue: stored, armed: true}
	}
	early, ahead, own, late := w(mine, 3), w(theirs, 5), w(mine, 6), w(mine, 9)
	other := w(mine, 6)
	other.queue = "other"
	channels := map[string]map[*watch]struct{}{}
	for i, w := range []*watch{early, ahead, own, late, other} {
		channels[strconv.Itoa(i)] = map[*watch]struct{}{w: {}}
	}
	l := &link{polls: true, h: &Hub{Config: Config{Session: mine}, channels: channels}}

	assert.Equal(t, []*watch{own, ahead}, l.withOwn([]*watch{ahead}))
	assert.Equal(t, []*watch{own, ahead}, l.withOwn([]*watch{ahead, own}), "each once")
	assert.Equal(t, []*watch{late}, l.withOwn([]*watch{late}))
}

// The count is a whole TTL from the receipt of the answer, whatever the number of looks.
func TestASessionThatIsNotRenewedIsEndedAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.sights = [][3]int64{{theirs, 3, 2000}} })
		w.watch(entry.Target())
		passes(1500 * time.Millisecond)
		w.set(func() { w.sights[0][1] = 4 }) // renewed
		passes(1900 * time.Millisecond)
		w.set(func() { assert.Empty(t, w.ended) })
		passes(600 * time.Millisecond)
		assert.Equal(t, []observed.Sight{{ID: layout.SessionID(theirs), Version: 4, TTL: 2 * time.Second}}, w.ended)
	})
}

func TestSeveralDeadSessionsCostOneTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []time.Duration
		w := newWorld(t, func(w *world) { w.sights = [][3]int64{{21, 1, 2000}, {22, 1, 2000}, {23, 1, 2000}} })
		w.End = func(_ context.Context, due observed.Sight) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			ended = append(ended, time.Since(w.began))
			w.sights = slices.DeleteFunc(w.sights, func(s [3]int64) bool { return layout.SessionID(s[0]) == due.ID })
			return nil
		}
		w.watch(driver.Target{Kind: driver.OfQueue, Queue: "q"})
		passes(3 * time.Second)
		require.Len(t, ended, 3)
		for _, at := range ended {
			assert.GreaterOrEqual(t, at, 2*time.Second)
			assert.Less(t, at, 2*time.Second+300*time.Millisecond)
		}
	})
}

// A login that may not delete the session gets the same error each time, at once.
func TestAnEndThatFailsIsTriedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, refused := 0, errors.New("refused")
		w := newWorld(t, func(w *world) { w.sights = [][3]int64{{theirs, 1, 2000}} })
		w.End = func(context.Context, observed.Sight) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			tries++
			if refused == nil {
				w.sights = nil
			}
			return refused
		}
		w.watch(entry.Target())
		passes(2 * time.Minute)
		w.set(func() {
			assert.GreaterOrEqual(t, tries, 12)
			assert.LessOrEqual(t, tries, 32, "each pause is at least half of 10 s, but for the first ones")
		})
		assert.LessOrEqual(t, len(w.asked("observe")), 8*130, "the looks go on as without it")

		w.set(func() { refused = nil })
		passes(endMost + time.Second)
		w.set(func() { assert.Empty(t, w.sights) })
	})
}

func TestTheOwnSessionIsNeverEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.sights = [][3]int64{{mine, 1, 2000}} })
		w.watch(entry.Target())
		passes(time.Minute)
		assert.Empty(t, w.ended)
	})
}

func TestAnotherLifeEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.alive = false })
		w.watch(entry.Target())
		passes(time.Millisecond)
		assert.Equal(t, 1, w.over)
		assert.Empty(t, w.seen(), "no state of the other life is reported")
	})
}

// A login that may only read has no row in table watcher, so no change is notified to it.
func TestALoginThatMayOnlyReadPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.refusal = "42501" })
		w.watch(driver.Target{Kind: driver.OfQueue, Queue: "q"})
		passes(time.Second)
		assert.Len(t, w.asked("watcher"), 1)
		assert.GreaterOrEqual(t, len(w.asked("states")), 15)
		w.set(func() { w.stamp++ })
		passes(near)
		assert.Equal(t, []string{"armed", "changed"}, w.seen())
	})
}

// Where the lock of the queue is not free, the row is made later, and until then no state counts.
func TestAStateIsNotReadBeforeItsRowInTableWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.refusal = "55P03" })
		w.watch(driver.Target{Kind: driver.OfQueue, Queue: "q"})
		passes(100 * time.Millisecond)
		assert.Empty(t, w.asked("states"))
		passes(2 * time.Second)
		assert.LessOrEqual(t, len(w.asked("watcher")), 12, "with a pause")
		assert.Empty(t, w.asked("states"))
		assert.NotEmpty(t, w.asked("observe"), "what else is to be done goes on")
		w.set(func() { w.refusal = "" })
		passes(retry)
		assert.Equal(t, []string{"armed"}, w.seen())
	})
}

func TestRowsInTableWatcherAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		w.watch(driver.Target{Kind: driver.OfQueue, Queue: "q"})
		passes(2 * time.Minute)
		asked := w.asked("watcher")
		require.GreaterOrEqual(t, len(asked), 6)
		for i := range asked[1:] {
			assert.LessOrEqual(t, asked[i+1]-asked[i], 40*time.Second, "they count for a minute")
		}
	})
}

func TestACanceledWatchReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		cancel := w.watch(entry.Target())
		passes(time.Second)
		cancel()
		w.server.Notify(layout.EntryChannel(channel, 5), "g10")
		passes(2 * recheck)
		assert.Equal(t, []string{"armed"}, w.seen())
		w.watch(driver.Ref{Queue: "q", Key: layout.Key(theirs, 6), Place: 6}.Target())
		passes(time.Second)
		last := w.requests[len(w.requests)-1]
		assert.NotEmpty(t, last.what)
		assert.NotEmpty(t, w.asked("unlisten "+layout.EntryChannel(channel, 5)+";listen "+layout.EntryChannel(channel, 6)+";"))
	})
}

func TestAnOwnEntryThatLeavesIsReportedWithoutANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(*world) {})
		own := driver.Ref{Queue: "q", Key: layout.Key(mine, 5), Place: 5}
		w.Joined(stored, 5)
		w.watch(own.Target())
		passes(time.Second)
		w.Left(own, true)
		passes(time.Millisecond)
		assert.Equal(t, []string{"armed", "gone first"}, w.seen())
	})
}
