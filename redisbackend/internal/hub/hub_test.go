package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/fakeredis"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	prefix = "{r}:c" // of the channels
	ttl    = 10 * time.Second
)

var (
	mine, theirs = "00aa-1000", "00bb-10000"
	entry        = driver.Ref{Queue: "q", Key: script.Key(theirs, 5), Place: 5} // of another client
	channel      = script.SessionChannel(prefix, mine)
	queue        = script.QueueChannel(prefix, "q")
	whole        = driver.Target{Kind: driver.OfQueue, Queue: "q"}
)

// world is a hub and its server. Requests and events have the time since the start.
type world struct {
	*Hub
	began time.Time

	mu       sync.Mutex
	log      bytes.Buffer
	requests []step
	events   []step
	ended    []step
	asked    []int // how many of the stalest sessions each look has asked for
	waits    int
	feed     *feed

	header   string            // of each entry; "" if it is gone
	record   string            // of each record
	sessions []any             // of a look
	during   func(what string) // is called for each request, before it is carried out
	refuses  map[string]error  // what a request returns
	cannot   error             // what End returns
}

type step struct {
	what string
	at   time.Duration
}

// feed is a connection of a hub in memory.
type feed struct {
	*world
	heard map[string]bool
	lost  chan error
	ended bool
}

func (f *feed) request(what string, channels []string) error {
	slices.Sort(channels)
	return f.did(what + " " + strings.Join(channels, " "))
}

func (f *feed) Subscribe(_ context.Context, channels []string) error {
	err := f.request("subscribe", channels)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range channels {
		f.heard[c] = true
	}
	return err
}

func (f *feed) Unsubscribe(_ context.Context, channels []string) error {
	err := f.request("unsubscribe", channels)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range channels {
		delete(f.heard, c)
	}
	return err
}

func (f *feed) Lost() <-chan error { return f.lost }

func (f *feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

// did notes a request, and returns its error.
func (w *world) did(what string) error {
	w.mu.Lock()
	w.requests = append(w.requests, step{what, time.Since(w.began)})
	word, _, _ := strings.Cut(what, " ")
	err, during := w.refuses[word], w.during
	w.mu.Unlock()
	if during != nil {
		during(what)
	}
	return err
}

// newWorld returns a hub on a server where all entries are there. change is called before the start.
func newWorld(t *testing.T, change func(c *Config, w *world)) *world {
	t.Helper()
	w := &world{began: time.Now(), header: theirs + " 0 1 0 0 0", refuses: map[string]error{}}
	c := Config{
		Dial: func(context.Context, func(channel, payload string)) (Feed, error) {
			if err := w.did("dial"); err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.feed = &feed{world: w, heard: map[string]bool{}, lost: make(chan error, 1)}
			return w.feed, nil
		},
		Look: w.look,
		End: func(_ context.Context, due observed.Sight) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, step{fmt.Sprint(due.ID, " ", due.Version), time.Since(w.began)})
			return w.cannot
		},
		Owns: func(session string) bool { return session == mine }, Channels: prefix, Session: mine,
		Clock: fakeredis.NewClock(), Logger: slog.New(slog.NewTextHandler(w, nil)),
		Waits: func() { w.waits++ },
	}
	change(&c, w)
	w.Hub = New(c)
	t.Cleanup(func() {
		w.Stop()
		w.Wait()
	})
	return w
}

func (w *world) look(_ context.Context, args script.Args) (script.Reply, error) {
	at := 0
	next := func() string {
		at++
		return args[at-1]
	}
	number := func() (n int) {
		_, err := fmt.Sscan(next(), &n)
		if err != nil {
			panic(err)
		}
		return n
	}
	stalest := number()
	at += number() // of other sessions
	var targets []string
	var states []any
	w.mu.Lock()
	for range number() {
		kind, q, what := next(), next(), next()
		targets = append(targets, kind+":"+q+":"+what)
		states = append(states, map[string]any{"e": w.header, "r": w.record, "q": ""}[kind])
	}
	sessions := w.sessions
	if stalest == 0 {
		sessions = nil
	} else {
		w.asked = append(w.asked, stalest)
	}
	w.mu.Unlock()
	slices.Sort(targets)
	err := w.did(strings.TrimSpace("look " + strings.Join(targets, " ")))
	if err != nil {
		return nil, err
	}
	return script.Reply(fakeredis.Reply("OK", sessions, states)), nil
}

// watch watches a target, and returns the end of the watch.
func (w *world) watch(target driver.Target) func() {
	return w.Watch(target, func(e driver.Event) {
		text := map[driver.EventKind]string{driver.Armed: "armed", driver.Changed: "changed", driver.Gone: "gone", driver.Lost: "lost"}[e.Kind]
		if e.First {
			text += " first"
		}
		if e.Marks != 0 {
			text += fmt.Sprint(" ", uint8(e.Marks))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, step{text, time.Since(w.began)})
	})
}

// set changes what the server answers.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// publish sends a message to a channel, if it is subscribed to.
func (w *world) publish(channel, payload string) {
	w.mu.Lock()
	heard := w.feed != nil && w.feed.heard[channel] && !w.feed.ended
	w.mu.Unlock()
	if heard {
		w.notice(channel, payload)
	}
	synctest.Wait()
}

// connection returns the newest connection.
func (w *world) connection() *feed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.feed
}

// breaks breaks the connection.
func (w *world) breaks() {
	w.mu.Lock()
	f := w.feed
	f.heard = map[string]bool{}
	w.mu.Unlock()
	f.lost <- errors.New("reset")
	synctest.Wait()
}

// passes lets time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// whats returns the texts of steps, or those which begin with a word.
func (w *world) whats(all *[]step, word string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var texts []string
	for _, s := range *all {
		if strings.HasPrefix(s.what, word) {
			texts = append(texts, s.what)
		}
	}
	return texts
}

// ends returns the ends of sessions so far.
func (w *world) ends() []step {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ended)
}

// looks returns how many of the stalest sessions each look at sessions has asked for.
func (w *world) looks() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// Write takes in what is logged.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) seen() []string { return w.whats(&w.events, "") }

func nothing(*Config, *world) {}

func TestAStateIsLookedAtAfterItsChannelIsSubscribedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.watch(entry.Target())
		synctest.Wait()

		assert.Equal(t, []string{"dial", "subscribe " + channel, "look e:q:5"}, w.whats(&w.requests, ""))
		assert.Equal(t, []string{"armed"}, w.seen())
		assert.Equal(t, 1, w.waits)
	})
}

// What happens between a look and a subscription would be missed.
func TestADeletionDuringASubscriptionIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *Config, w *world) {
			w.during = func(what string) {
				if strings.HasPrefix(what, "subscribe") {
					w.set(func() { w.header = "" }) // its notice is lost
				}
			}
		})
		w.watch(entry.Target())
		synctest.Wait()

		assert.Equal(t, []string{"gone"}, w.seen())
	})
}

// A watch that is not armed takes in only what stays true.
func TestNoticesDuringTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for payload, want := range map[string][]string{
			"g1:0:5:q": {"gone first"}, "g0:0:5:q": {"gone"}, "c1:1:5:q": {"armed"}, "e": {"armed"},
		} {
			w := newWorld(t, func(_ *Config, w *world) {
				w.during = func(what string) {
					if strings.HasPrefix(what, "look e") {
						w.publish(channel, payload)
					}
				}
			})
			w.watch(entry.Target())
			passes(time.Millisecond)
			assert.Equal(t, want, w.seen(), payload)
		}
	})
}

func TestAnEntryReportsItsMarksAndChangesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *Config, w *world) { w.header = theirs + " 0 1 0 1 4" })
		w.watch(entry.Target())
		synctest.Wait()
		assert.Equal(t, []string{"armed 1"}, w.seen())

		w.publish(channel, "c4:1:5:q")
		assert.Equal(t, []string{"armed 1"}, w.seen(), "the look has shown it")
		w.publish(channel, "c5:3:5:q")
		assert.Equal(t, []string{"armed 1", "changed 3"}, w.seen())
		w.publish(channel, "c4:1:5:q")
		assert.Len(t, w.seen(), 2, "it was late")
		w.publish(channel, "c6:3:5:q")
		assert.Equal(t, "changed 3", w.seen()[2], "its data has changed")
		w.publish(channel, "g1:0:5:q")
		w.publish(channel, "g0:0:5:q")
		w.publish(channel, "c7:3:5:q")
		assert.Equal(t, []string{"armed 1", "changed 3", "changed 3", "gone first"}, w.seen(), "nothing comes after the end")
		assert.False(t, w.Waiting())
	})
}

func TestOtherTargetsReportWhatIsAboutThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			target  driver.Target
			reports []string
		}{
			{driver.Target{Kind: driver.OfHolders, Queue: "q"}, []string{"g1:2:5:q", "c1:3:5:q"}},
			{driver.Target{Kind: driver.OfQueue, Queue: "q"}, []string{"e", "g1:2:5:q", "c1:3:5:q", "g1:0:5:q", "c1:1:5:q"}},
			{driver.Target{Kind: driver.OfRecord, Queue: "q", Record: "a"}, []string{"ra"}},
		} {
			w := newWorld(t, nothing)
			w.watch(c.target)
			synctest.Wait()
			require.Equal(t, []string{"armed"}, w.seen())
			for _, payload := range []string{"e", "ra", "rb", "g1:2:5:q", "c1:3:5:q", "g1:0:5:q", "c1:1:5:q", "x"} {
				before := len(w.seen())
				w.publish(queue, payload)
				want := 0
				if slices.Contains(c.reports, payload) {
					want = 1
				}
				assert.Equal(t, want, len(w.seen())-before, "%v %s", c.target, payload)
			}
		}
	})
}

func TestANoticeThatWasLostCostsOneRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *Config, w *world) { w.record = "5" })
		w.watch(entry.Target())
		w.watch(driver.Target{Kind: driver.OfRecord, Queue: "q", Record: "a"})
		w.watch(driver.Target{Kind: driver.OfQueue, Queue: "q"})
		passes(time.Second)
		require.Equal(t, []string{"armed", "armed", "armed"}, w.seen())
		looks := len(w.whats(&w.requests, "look"))
		w.set(func() { w.header, w.record = "", "6" })
		passes(recheck)
		assert.ElementsMatch(t, []string{"gone", "changed"}, w.seen()[3:])
		assert.Equal(t, []string{"look e:q:5 r:q:a"}, w.whats(&w.requests, "look")[looks:])
		passes(3 * recheck)
		assert.Len(t, w.seen(), 5)
	})
}

func TestAWatchThatWaitsIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.watch(entry.Target())
		passes(time.Minute + time.Millisecond)
		assert.Len(t, w.whats(&w.requests, ""), 2+1+6, "each recheck is one request")
		assert.Equal(t, []string{"armed"}, w.seen())
	})
}

func TestAConnectionThatBreaksIsReportedAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.watch(entry.Target())
		passes(time.Second)
		broken := w.connection()
		w.breaks()
		passes(time.Second)

		assert.Equal(t, []string{"armed", "lost", "armed"}, w.seen())
		assert.Equal(t, []string{"dial", "subscribe " + channel, "look e:q:5"}, w.whats(&w.requests, "")[3:], "all is subscribed to again")
		assert.True(t, broken.ended)
		w.set(func() { w.header = "" })
		w.breaks()
		passes(time.Second)
		assert.Equal(t, []string{"armed", "lost", "armed", "lost", "gone"}, w.seen(), "a look shows what was missed")
	})
}

func TestAnOutageIsReportedOnceAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.watch(entry.Target())
		passes(time.Second)
		w.set(func() { w.refuses["dial"] = driver.ErrUnavailable })
		w.breaks()
		passes(time.Minute)
		assert.Equal(t, []string{"armed", "lost"}, w.seen())
		dials := len(w.whats(&w.requests, "dial"))
		assert.Greater(t, dials, 60, "it is tried at least every second")
		assert.Less(t, dials, 140)
		w.set(func() { delete(w.refuses, "dial") })
		passes(2 * time.Second)
		assert.Equal(t, []string{"armed", "lost", "armed"}, w.seen())
		assert.Equal(t, 1, strings.Count(w.logged(), "not reported for now"))
		assert.Equal(t, 1, strings.Count(w.logged(), "reported again"))
	})
}

// Each of these requests costs the connection: it is not known what it has done.
func TestARequestThatFailsCostsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, word := range []string{"dial", "subscribe", "look"} {
			w := newWorld(t, func(_ *Config, w *world) { w.refuses[word] = driver.ErrUnavailable })
			w.watch(entry.Target())
			passes(100 * time.Millisecond)
			assert.Empty(t, w.seen(), word)
			w.set(func() { delete(w.refuses, word) })
			passes(time.Second)
			assert.Equal(t, []string{"armed"}, w.seen(), word)
			assert.Greater(t, len(w.whats(&w.requests, "dial")), 1, word)
		}
	})
}

func TestARequestThatIsNotAnsweredCostsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var look func(ctx context.Context, args script.Args) (script.Reply, error)
		w := newWorld(t, func(c *Config, _ *world) {
			look = c.Look
			silent := true
			c.Look = func(ctx context.Context, args script.Args) (script.Reply, error) {
				if silent {
					silent = false
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return look(ctx, args)
			}
		})
		w.watch(entry.Target())
		passes(patience + time.Second)
		assert.Equal(t, []string{"armed"}, w.seen())
		assert.Len(t, w.whats(&w.requests, "dial"), 2)
	})
}

func TestWatchesOfOneEntryAreReportedToEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		first := w.watch(entry.Target())
		synctest.Wait()
		second := w.watch(entry.Target())
		synctest.Wait()
		assert.Equal(t, []string{"armed", "armed"}, w.seen())
		assert.Len(t, w.whats(&w.requests, "look"), 2)
		assert.Equal(t, 1, w.waits, "only the first is new to the renewals")
		w.watch(driver.Ref{Queue: "q", Key: script.Key(mine, 6), Place: 6}.Target())
		synctest.Wait()

		first()
		first()
		w.publish(channel, "c1:1:5:q")
		assert.Equal(t, []string{"armed", "armed", "armed", "changed 1"}, w.seen(), "only the second one is reported to")
		second()
		passes(recheck)
		assert.False(t, w.Waiting())
		assert.Equal(t, []string{"subscribe " + channel}, w.whats(&w.requests, "subscribe"))
		assert.Empty(t, w.whats(&w.requests, "unsubscribe"), "the session has one channel as long as it lives")
	})
}

func TestSeveralWatchesShareTheChannelOfTheirQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		first := w.watch(whole)
		synctest.Wait()
		second := w.watch(driver.Target{Kind: driver.OfRecord, Queue: "q", Record: "a"})
		synctest.Wait()
		assert.Equal(t, []string{"armed", "armed"}, w.seen())
		assert.Len(t, w.whats(&w.requests, "subscribe"), 1, "the second one only looks")
		assert.Len(t, w.whats(&w.requests, "look"), 2)

		first()
		first()
		w.watch(entry.Target())
		synctest.Wait()
		assert.Empty(t, w.whats(&w.requests, "unsubscribe"))
		second()
		w.watch(entry.Target())
		synctest.Wait()
		assert.Equal(t, []string{"unsubscribe " + queue}, w.whats(&w.requests, "unsubscribe"), "the next request of the hub ends it")
	})
}

// A watch that begins during the end of another one on its channel must not be left without.
func TestAWatchDuringAnUnsubscriptionIsSubscribedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		cancel := w.watch(whole)
		synctest.Wait()
		w.set(func() {
			w.during = func(what string) {
				if strings.HasPrefix(what, "unsubscribe") {
					w.watch(whole)
				}
			}
		})
		cancel()
		passes(recheck)
		assert.Equal(t, []string{"armed", "armed"}, w.seen())
		assert.Equal(t, []string{
			"subscribe " + channel + " " + queue, "look q:q:", "unsubscribe " + queue, "subscribe " + queue, "look q:q:",
		}, w.whats(&w.requests, "")[1:])
		w.publish(queue, "e")
		assert.Equal(t, "changed", w.seen()[2])
	})
}

// One that begins before the unsubscription is sent keeps the channel.
func TestAWatchBeforeAnUnsubscriptionKeepsTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		cancel := w.watch(whole)
		synctest.Wait()
		cancel()
		w.watch(whole)
		passes(recheck)
		assert.Empty(t, w.whats(&w.requests, "unsubscribe"))
		w.publish(queue, "e")
		assert.Equal(t, []string{"armed", "armed", "changed"}, w.seen())
	})
}

func TestAWatchThatEndsDuringItsSubscriptionIsUnsubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		cancels := make(chan func(), 1)
		w.set(func() {
			w.during = func(what string) {
				if strings.HasPrefix(what, "subscribe") {
					(<-cancels)()
				}
			}
		})
		cancels <- w.watch(whole)
		passes(recheck)
		assert.Empty(t, w.seen())
		assert.Equal(t, []string{"unsubscribe " + queue}, w.whats(&w.requests, "unsubscribe"))
		assert.Equal(t, map[string]bool{channel: true}, w.connection().heard)
	})
}

// An observer has no channel of its own.
func TestAnObserverWatchesAnEntryThroughItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *world) { c.Session = "" })
		w.watch(entry.Target())
		w.Start()
		synctest.Wait()
		assert.Equal(t, []string{"dial", "subscribe " + queue, "look e:q:5"}, w.whats(&w.requests, ""))
		w.publish(queue, "e")
		w.publish(queue, "g1:0:6:q")
		w.publish(queue, "c1:1:5:q")
		w.publish(queue, "g1:0:5:q")
		assert.Equal(t, []string{"armed", "changed 1", "gone first"}, w.seen())
	})
}

func TestManyTargetsTakeSeveralLooksAndOneSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *Config, w *world) {
			var once sync.Once
			w.during = func(what string) {
				if what == "dial" {
					once.Do(func() {
						for i := range 2 * chunk {
							w.watch(driver.Ref{Queue: "q", Key: script.Key(theirs, int64(10+i)), Place: int64(10 + i)}.Target())
						}
					})
					w.set(func() { w.refuses["look"] = driver.ErrUnavailable }) // the second connection takes all at once
				}
			}
		})
		w.watch(entry.Target())
		synctest.Wait()
		w.set(func() {
			w.during, w.requests = nil, nil
			delete(w.refuses, "look")
		})
		passes(time.Second)
		assert.Len(t, w.seen(), 2*chunk+1)
		assert.Len(t, w.whats(&w.requests, "subscribe"), 1)
		assert.Len(t, w.whats(&w.requests, "look"), 3)
	})
}

func TestAnEntryOfAnotherServiceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.watch(driver.Ref{Queue: "q", Key: "lock-0000000005", Place: 5}.Target())
		synctest.Wait()
		assert.Equal(t, []string{"gone"}, w.seen())
	})
}

func TestAnOwnDeletionIsReportedWithoutANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := driver.Ref{Queue: "q", Key: script.Key(mine, 5), Place: 5}
		w := newWorld(t, nothing)
		w.watch(own.Target())
		synctest.Wait()
		w.Left(own, true)
		synctest.Wait()
		w.publish(channel, "g0:0:5:q")
		assert.Equal(t, []string{"armed", "gone first"}, w.seen())
	})
}

// The end of another entry is reported in order with the ends of those that were ended before it.
func TestTheDeletionOfAnotherEntryIsReportedByItsNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for session, want := range map[string][]string{mine: {"armed"}, "": {"armed", "gone first"}} {
			w := newWorld(t, func(c *Config, _ *world) { c.Session = session })
			w.watch(entry.Target())
			synctest.Wait()
			w.Left(entry, true)
			synctest.Wait()
			assert.Equal(t, want, w.seen(), "%q", session)
		}
	})
}

func TestNothingIsReportedAfterTheEndOfAHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		cancel := w.watch(entry.Target())
		synctest.Wait()
		w.Stop()
		w.Wait()
		cancel()
		w.Left(entry, false)
		w.notice(channel, "g0:0:5:q")
		w.watch(entry.Target())()
		w.Saw(w.Clock.Now(), script.Reply(fakeredis.Reply(theirs, "7")))
		passes(time.Minute)
		assert.Equal(t, []string{"armed"}, w.seen())
		assert.True(t, w.connection().ended)
		assert.Empty(t, w.ends())
	})
}

// The sessions of others.

// saw has the hub take in the answer to a renewal.
func (w *world) saw(sessions ...any) {
	w.Saw(w.Clock.Now(), script.Reply(fakeredis.Reply(sessions...)))
	synctest.Wait()
}

func TestASessionIsEndedAWholeTTLAfterTheReceiptOfItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, _ *world) { c.Session = "" })
		passes(time.Second)
		w.saw(theirs, "7")
		passes(ttl - time.Millisecond)
		assert.Empty(t, w.ends())
		passes(time.Millisecond)
		assert.Equal(t, []step{{theirs + " 7", time.Second + ttl}}, w.ends())
		assert.Empty(t, w.whats(&w.requests, "dial"), "an observer that watches nothing needs no connection for notices")
	})
}

func TestARenewalBeginsTheCountAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		for version := range 20 {
			w.saw(theirs, fmt.Sprint(version))
			passes(ttl / 2)
		}
		assert.Empty(t, w.ends())
		for range 3 {
			w.saw(theirs, "19") // the count goes on
			passes(ttl/2 - time.Second)
		}
		assert.Equal(t, theirs+" 19", w.ends()[0].what)
	})
}

func TestEachSessionHasTheTTLInItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.saw("a-3000", "1", "b-1000", "2", "c-2000", "3", mine, "4", "o77", "5", "without", "6", "b-1000", "2")
		passes(3500 * time.Millisecond)
		w.saw()
		var firsts []step
		for _, e := range w.ends() {
			if !slices.ContainsFunc(firsts, func(s step) bool { return s.what == e.what }) {
				firsts = append(firsts, e)
			}
		}
		assert.Equal(t, []step{{"b-1000 2", time.Second}, {"c-2000 3", 2 * time.Second}, {"a-3000 1", 3 * time.Second}}, firsts,
			"not an own one, nor what is no session")
		passes(time.Minute)
		assert.Len(t, w.ends(), len(firsts)+2+1, "the others are there until a look shows that they are not")
	})
}

// What was to be ended may have been renewed meanwhile, or the request was lost.
func TestAnEndIsTriedAgainAfterASecondUntilALookDoesNotShowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		w.saw(theirs, "7")
		passes(ttl + 3*again - time.Millisecond)
		assert.Equal(t, []step{{theirs + " 7", ttl}, {theirs + " 7", ttl + again}, {theirs + " 7", ttl + 2*again}}, w.ends())
		w.saw(theirs, "8")
		passes(ttl - time.Second)
		assert.Len(t, w.ends(), 3, "it was renewed")
		w.saw()
		passes(time.Minute)
		assert.Len(t, w.ends(), 3, "it is gone")
	})
}

// A look may show many that are stale. Each one asks for more, so that a second TTL is not needed for those
// behind them.
func TestALookAsksForMoreWhereManyAreStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		dead := func(n int) (all []any) {
			for i := range n {
				all = append(all, fmt.Sprint("dead", i, "-10000"), "5")
			}
			return all
		}
		asks := func() (n int) {
			_, err := fmt.Sscan(w.Ask()[0], &n)
			require.NoError(t, err)
			return n
		}
		assert.Equal(t, fewest, asks())
		w.saw(dead(100)[:2*asks()]...)
		assert.Equal(t, fewest, asks(), "they are new")
		var each []int
		for range 6 {
			passes(time.Second)
			w.saw(dead(1000)[:2*asks()]...)
			each = append(each, asks())
		}
		assert.Equal(t, []int{48, 48, 112, 112, 240, 240}, each, "those that one look has shown for the first time count for the next")
		for range 6 {
			w.saw(dead(1000)[:2*asks()]...)
		}
		assert.Equal(t, most, asks())
		w.saw("new-10000", "1")
		assert.Equal(t, fewest, asks())
	})
}

// The owner of what is ahead may not be among the stalest.
func TestALookAsksForTheOwnersOfWhatIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nothing)
		assert.Equal(t, script.Args{"16", "0"}, w.Ask())
		own := w.watch(driver.Ref{Queue: "q", Key: script.Key(mine, 6), Place: 6}.Target())
		assert.Equal(t, script.Args{"16", "0"}, w.Ask(), "an own session is not observed")
		one, two := w.watch(entry.Target()), w.watch(driver.Ref{Queue: "p", Key: script.Key(theirs, 9), Place: 9}.Target())
		assert.Equal(t, script.Args{"16", "1", theirs}, w.Ask())
		one()
		one()
		assert.Equal(t, script.Args{"16", "1", theirs}, w.Ask())
		w.notice(channel, "g0:0:9:p")
		assert.Equal(t, script.Args{"16", "0"}, w.Ask())
		two()
		own()
		assert.Equal(t, script.Args{"16", "0"}, w.Ask())
	})
}

func TestAnObserverLooksAtSessionsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config, w *world) {
			c.Tick = time.Second
			w.sessions = []any{theirs, "7"}
		})
		passes(time.Minute)
		assert.Empty(t, w.whats(&w.requests, ""), "it waits for nothing")
		cancel := w.watch(entry.Target())
		passes(ttl + time.Millisecond)
		assert.Equal(t, []step{{theirs + " 7", time.Minute + ttl}}, w.ends())
		looks := len(w.looks())
		assert.Equal(t, 11, looks, "one each second")
		cancel()
		passes(time.Minute)
		assert.Len(t, w.looks(), looks)
	})
}

// All that wait behind such a session wait on, so it is an error, and it is logged once.
func TestAnEndThatIsDeniedIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err    error
			logged int
		}{
			{driver.ErrDenied, 1}, {driver.ErrRefused, 1}, {driver.ErrUnavailable, 0}, {driver.ErrSessionOver, 0},
		} {
			w := newWorld(t, func(_ *Config, w *world) { w.cannot = fmt.Errorf("wrapped: %w", c.err) })
			w.saw(theirs, "7", "00cc-10000", "8")
			passes(ttl + time.Minute)
			assert.Greater(t, len(w.ends()), 100, "it is tried again")
			assert.Equal(t, c.logged, strings.Count(w.logged(), "level=ERROR"), "%v", c.err)
		}
	})
}
