package ui_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

// waitFor starts a request that waits, and returns what ends it. A grant is kept until then.
func waitFor(f *fixture, lock func(ctx context.Context) (*session.Hold, error)) (end func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h, err := lock(ctx); err == nil {
			<-ctx.Done()
			_ = h.Unlock()
		}
	}()
	synctest.Wait()
	return func() { cancel(); <-done; synctest.Wait() }
}

func TestThePageShowsQueuesInOrder(t *testing.T) {
	inBubble(t, ui.Options{Title: "test", Command: "fairlock --context test"}, func(f *fixture) {
		a, b, c := f.worker("a"), f.worker("b"), f.worker("c")
		h, err := mutex.New(a, "orders").Lock(f.t.Context())
		require.NoError(t, err)
		defer waitFor(f, mutex.New(b, "orders").Lock)()
		defer waitFor(f, rwlock.New(a, "config").Lock)()
		defer waitFor(f, rwlock.New(b, "config").RLock)()
		defer waitFor(f, rwlock.New(c, "config").RLock)()
		s := semaphore.New(a, "gpu", 4)
		for _, n := range []int64{3, 2, 2, 1} {
			defer waitFor(f, func(ctx context.Context) (*session.Hold, error) { return s.Acquire(ctx, n) })()
		}
		time.Sleep(2 * time.Second) // until grants are recorded

		p := f.page()
		p.take()
		st := f.state()

		assert.Equal(t, "test", st.Service)
		assert.Equal(t, "fairlock --context test", st.Command)
		assert.Empty(t, st.Token, "a page that only reads needs no token")
		orders, _ := st.lock("orders")
		assert.Equal(t, "a+ b", labels(orders.Entries))
		assert.Equal(t, "mutex", orders.Kind)
		assert.Equal(t, h.Token().String(), orders.Entries[0].Token)
		assert.NotZero(t, orders.Entries[0].Granted)
		assert.NotZero(t, orders.Entries[1].Asked)
		config, _ := st.lock("config")
		assert.Equal(t, "a+ b&c", labels(config.Entries))
		gpu, _ := st.lock("gpu")
		assert.Equal(t, "a+ a&a a", labels(gpu.Entries))
		assert.EqualValues(t, 4, gpu.Limit)
		assert.EqualValues(t, 3, gpu.Entries[0].Weight)
		assert.Len(t, st.Locks, 3)
		assert.Empty(t, st.Status.Err)
		assert.True(t, st.Status.Health.Ready)
		assert.Equal(t, "page", st.Status.Health.Label)
		assert.Equal(t, int64(10_000), st.Status.Health.TTL)
		assert.Equal(t, f.s.Health().Left.Milliseconds(), st.Status.Health.Left, "no time has passed since the tick")
		assert.Positive(t, st.Status.Health.Left)

		require.NoError(t, h.Unlock())
		time.Sleep(time.Second)
		for _, e := range p.take() {
			st.apply(t, e.data)
		}
		orders, _ = st.lock("orders")
		assert.Equal(t, "b+", labels(orders.Entries))
		p.close()
	})
}

// TestTicksAddUpToTheState: a page that applies every change has what a page that loads
// the state has.
func TestTicksAddUpToTheState(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inBubble(t, ui.Options{}, func(f *fixture) {
		random := rand.New(rand.NewPCG(seed, 0))
		workers := []*session.Session{f.worker("a"), f.worker("b"), f.worker("c")}
		p := f.page()
		p.take()
		st := f.state()
		var ends []func()
		for range 60 {
			switch name := fmt.Sprint("lock-", random.IntN(4)); {
			case len(ends) > 0 && random.IntN(2) == 0:
				i := random.IntN(len(ends))
				ends[i]()
				ends = append(ends[:i], ends[i+1:]...)
			case random.IntN(3) == 0:
				ends = append(ends, waitFor(f, rwlock.New(workers[random.IntN(3)], "rw-"+name).RLock))
			default:
				ends = append(ends, waitFor(f, mutex.New(workers[random.IntN(3)], name).Lock))
			}
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			for _, e := range p.take() {
				require.Empty(t, e.kind)
				st.apply(t, e.data)
			}
			whole := f.state()
			require.Equal(t, whole.Seq, st.Seq)
			require.Len(t, st.Locks, len(whole.Locks))
			for _, l := range whole.Locks {
				mine, ok := st.lock(l.Name)
				require.True(t, ok)
				assert.Equal(t, l.Entries, mine.Entries, "seed %d", seed)
			}
		}
		for _, end := range ends {
			end()
		}
		p.close()
	})
}

func TestTwoHundredPagesShareOneReader(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		a := f.worker("a")
		for i := range 20 {
			defer waitFor(f, mutex.New(a, fmt.Sprint("lock-", i)).Lock)()
		}
		one := f.page()
		one.take()
		sent := f.link.Requests()
		time.Sleep(10 * time.Second)
		one.take()
		alone := f.link.Requests() - sent

		pages := make([]*page, 200)
		for i := range pages {
			pages[i] = f.page()
		}
		for _, p := range pages {
			p.take()
		}
		sent = f.link.Requests()
		time.Sleep(10 * time.Second)
		for _, p := range pages {
			assert.Len(t, p.take(), 10)
			p.close()
		}
		one.close()
		assert.InDelta(t, alone, f.link.Requests()-sent, 30, "as with one page, but for renewals and one tick")

		sent = f.link.Requests()
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, f.link.Requests()-sent, 30, "without a page nothing is sent but renewals")
	})
}

// TestATickReadsABoundedNumberOfQueues: all queues are shown in the end, those that a
// page shows in every tick.
func TestATickReadsABoundedNumberOfQueues(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 600 {
			memtest.PutForeign(f.store, fmt.Sprintf("lock-%03d", i), "k", true)
		}
		p := f.page()
		p.take()
		assert.Len(t, f.state().Locks, 256)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, f.state().Locks, 512)
		time.Sleep(time.Second)
		synctest.Wait()
		st := f.state()
		assert.Len(t, st.Locks, 600)

		f.get("/lock?name=lock-000")
		sent := f.link.Sent(fault.Read)
		for range 5 {
			time.Sleep(time.Second)
			synctest.Wait()
			f.get("/lock?name=lock-000")
			l, _ := f.state().lock("lock-000")
			assert.InDelta(t, f.state().Status.Now, l.At, 500)
		}
		assert.LessOrEqual(t, f.link.Sent(fault.Read)-sent, 6*(256+32))
		p.close()
	})
}

// TestNamesAreReadWhenAllQueuesHadTheirTurn: on ZooKeeper the names cost a request for each folder.
// A lock that a page shows is read although it is newer than the names.
func TestNamesAreReadWhenAllQueuesHadTheirTurn(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 1000 {
			memtest.PutForeign(f.store, fmt.Sprintf("lock-%03d", i), "k", true)
		}
		p := f.page()
		p.take()
		before := f.link.Sent(fault.Names)
		for range 8 { // each list of names lasts for four ticks
			time.Sleep(time.Second)
			synctest.Wait()
		}
		assert.Equal(t, 2+8*256, f.link.Sent(fault.Names)-before, "a whole queue counts as one too")

		memtest.PutForeign(f.store, "new", "k", true)
		f.get("/lock?name=new")
		p.take() // it was in a hurry
		_, found := f.state().lock("new")
		assert.True(t, found)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_, found = f.state().lock("new")
		assert.True(t, found)
		p.close()
	})
}

// TestOneAddressHasABoundedNumberOfPages: all clients of the fixture have one address.
func TestOneAddressHasABoundedNumberOfPages(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		var pages []*page
		for range 250 {
			pages = append(pages, f.page())
		}
		res, text := f.get("/events")
		assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		assert.Contains(t, text, "250 pages of this address")
		for _, p := range pages {
			p.close()
		}
		synctest.Wait()
		f.page().close()
	})
}

// TestARequestThatDoesNotArriveIsDropped: a client sends the head of a request and no body.
func TestARequestThatDoesNotArriveIsDropped(t *testing.T) {
	for _, head := range []string{"POST /evict", "POST /nothing", "GET /state", "GET /events", "GET /lock?name=a"} {
		t.Run(head, func(t *testing.T) {
			inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
				conn, err := f.pipes.dial(f.t.Context(), "", "")
				require.NoError(t, err)
				_, err = conn.Write([]byte(head + " HTTP/1.1\r\nHost: localhost\r\nX-Fairlock-Token: x\r\nContent-Length: 100000\r\n\r\n"))
				require.NoError(t, err)
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
				if head == "GET /events" {
					time.AfterFunc(10*time.Second, func() { _ = f.s.Close() }) // which ends the page
				}

				_, err = io.Copy(io.Discard, conn)

				assert.NoError(t, err, "the server closes it")
				_ = conn.Close()
			})
		})
	}
}

// TestYieldRequestsStayWhileMoreLocksAreShownThanATickReadsThemOf: each tick reads those of 32 locks.
func TestYieldRequestsStayWhileMoreLocksAreShownThanATickReadsThemOf(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		const shown = 40
		asker := f.worker("asker")
		for i := range shown {
			name := fmt.Sprintf("lock-%02d", i)
			memtest.PutForeign(f.store, name, "k", true)
			_, err := yield.Send(f.t.Context(), asker, name, "hotfix")
			require.NoError(t, err)
		}
		p := f.page()
		p.take()
		asked := func() (n int) {
			for i := range shown {
				f.get(fmt.Sprintf("/lock?name=lock-%02d", i)) // as 40 pages do
			}
			time.Sleep(time.Second)
			p.take()
			for _, l := range f.state().Locks {
				n += len(l.Asks)
			}
			return n
		}
		for range 100 {
			if asked() == shown {
				break
			}
		}

		for range 20 {
			assert.Equal(t, shown, asked())
		}
		time.Sleep(time.Minute)
		p.take()
		for _, l := range f.state().Locks {
			assert.Empty(t, l.Asks, "no page shows it any more, so they are not read")
		}
		p.close()
	})
}

// TestALinkedLockIsReadNext: a page is opened by a link to a lock that no tick has read yet.
func TestALinkedLockIsReadNext(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 1000 {
			memtest.PutForeign(f.store, fmt.Sprintf("lock-%03d", i), "k", true)
		}
		p := f.page()
		p.take()

		assert.True(t, f.past("lock-999").Unread)
		p.take() // it was in a hurry

		_, ok := f.state().lock("lock-999")
		assert.True(t, ok, "1 of 512 that two ticks read")
		assert.False(t, f.past("lock-999").Unread)
		assert.False(t, f.past("nothing").Unread)
		p.close()
	})
}

// TestAQueueThatCannotBeReadHidesNoOther: an operator has damaged its limit, and all reads of
// it are refused.
func TestAQueueThatCannotBeReadHidesNoOther(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 50 {
			memtest.PutForeign(f.store, fmt.Sprintf("job-%02d", i), "k", true)
		}
		memtest.PutForeign(f.store, "gpu", "k", true)
		f.fail.Store("gpu", fmt.Errorf("%w: a record's nodes are damaged", session.ErrRefused))
		p := f.page()
		p.take()

		st := f.state()
		assert.Len(t, st.Locks, 50)
		assert.NotZero(t, st.Status.At)
		assert.Empty(t, st.Status.Err)
		assert.Equal(t, 1, st.Status.Unread)
		assert.Contains(t, st.Status.Why, `"gpu": refused by the service: a record's nodes are damaged`)
		assert.Equal(t, st.Status.Why, f.past("gpu").Err)
		assert.True(t, f.past("gpu").Unread)

		f.fail.Delete("gpu")
		time.Sleep(2 * time.Second)
		p.take()
		st = f.state()
		assert.Len(t, st.Locks, 51)
		assert.Zero(t, st.Status.Unread)
		assert.Empty(t, f.past("gpu").Err)

		f.fail.Store("gpu", session.ErrDenied)
		time.Sleep(2 * time.Second)
		for _, e := range p.take() {
			st.apply(t, e.data)
		}
		assert.False(t, st.All, "gpu is as old as before")
		assert.Contains(t, f.past("gpu").Err, "denied")

		f.store.Delete("gpu", "k")
		time.Sleep(2 * time.Second)
		p.take()
		st = f.state()
		assert.Len(t, st.Locks, 50)
		assert.Zero(t, st.Status.Unread)
		assert.Empty(t, f.past("gpu").Err)
		p.close()
	})
}

// TestLongQueuesAreReadLessOften: what is read stays below a bound, and no lock is starved.
func TestLongQueuesAreReadLessOften(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 5000 {
			memtest.PutForeign(f.store, "long", fmt.Sprint("k", i), true)
		}
		memtest.PutForeign(f.store, "short", "k", true)
		p := f.page()
		reads := map[string]map[int64]bool{"long": {}, "short": {}}
		for range 8 {
			f.get("/lock?name=long")
			time.Sleep(time.Second)
			p.take()
			for _, l := range f.state().Locks {
				reads[l.Name][l.At] = true
			}
		}

		assert.InDelta(t, 8*4096/5000, len(reads["long"]), 2)
		assert.NotEmpty(t, reads["short"])
		p.close()
	})
}

func TestAPageThatIsTooSlowIsDropped(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		conn, err := f.pipes.dial(f.t.Context(), "", "")
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET /events HTTP/1.1\r\nHost: ui.test\r\n\r\n"))
		require.NoError(t, err)
		b := make([]byte, 16)
		_, err = conn.Read(b)
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1 200 OK", string(b[:15]))
		before := f.link.Requests()

		time.Sleep(time.Minute) // it reads no further

		reads := f.link.Requests() - before
		assert.Positive(t, reads, "the reader did not wait for it")
		assert.Less(t, reads, 40, "ten ticks and the renewals: the last page has left, so nothing is read")
		require.NoError(t, conn.Close())
	})
}

// TestAPageThatSkipsTicksLoadsTheState: a page reads no tick for longer than ticks are
// kept, but soon enough to be served.
func TestAPageThatSkipsTicksLoadsTheState(t *testing.T) {
	inBubble(t, ui.Options{Interval: 100 * time.Millisecond}, func(f *fixture) {
		conn, err := f.pipes.dial(f.t.Context(), "", "")
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET /events HTTP/1.1\r\nHost: ui.test\r\n\r\n"))
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		text := ""
		b := make([]byte, 1<<16)
		for !strings.Contains(text, "resync") && len(text) < 1<<20 {
			n, err := conn.Read(b)
			require.NoError(t, err)
			text += string(b[:n])
		}
		assert.Contains(t, text, "event: resync")
		require.NoError(t, conn.Close())
		synctest.Wait()
	})
}

func TestAnOutageShowsSinceWhenAndEndsByItself(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		end := waitFor(f, mutex.New(f.worker("a"), "orders").Lock)
		p := f.page()
		p.take()
		cut := time.Now()
		f.link.Cut(fault.Both)

		time.Sleep(time.Minute)

		p.take()
		st := f.state()
		assert.NotEmpty(t, st.Status.Err)
		assert.InDelta(t, cut.UnixMilli(), st.Status.Since, 1001)
		assert.InDelta(t, cut.UnixMilli(), st.Status.At, 1001)
		assert.False(t, st.Status.Health.Ready)
		orders, ok := st.lock("orders")
		assert.True(t, ok, "the page keeps what it last saw")
		assert.Equal(t, "a+", labels(orders.Entries))

		f.link.Heal()
		time.Sleep(15 * time.Second)
		p.take()
		st = f.state()
		assert.Empty(t, st.Status.Err)
		assert.Zero(t, st.Status.Since)
		assert.True(t, st.Status.Health.Ready)
		p.close()
		end()
	})
}

// TestAnOutageBeforeTheFirstAnswerLeavesLocksUnread: a lock is open whose queue is not known.
func TestAnOutageBeforeTheFirstAnswerLeavesLocksUnread(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		end := waitFor(f, mutex.New(f.worker("a"), "orders").Lock)
		f.link.Cut(fault.Both)
		p := f.page()
		time.Sleep(15 * time.Second)
		p.take()
		st := f.state()
		assert.Positive(t, st.Seq)
		assert.Zero(t, st.Status.At)
		assert.NotEmpty(t, st.Status.Err)
		assert.True(t, f.past("orders").Unread, "no names were answered")

		f.fail.Store("orders", session.ErrUnavailable)
		f.link.Heal()
		time.Sleep(15 * time.Second)
		p.take()
		assert.Zero(t, f.state().Status.At)
		assert.True(t, f.past("orders").Unread, "the names were answered, and the queue was not")
		assert.False(t, f.past("nothing").Unread)

		f.fail.Delete("orders")
		time.Sleep(2 * time.Second)
		p.take()
		assert.NotZero(t, f.state().Status.At)
		assert.False(t, f.past("orders").Unread)
		p.close()
		end()
	})
}

// TestAnOutageBeginsAnewAfterATimeWithoutAPage: an outage of which no page has seen the end, and
// a later one.
func TestAnOutageBeginsAnewAfterATimeWithoutAPage(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		p := f.page()
		p.take()
		f.link.Cut(fault.Both)
		time.Sleep(30 * time.Second)
		p.close()
		require.NotEmpty(t, f.state().Status.Err)
		f.link.Heal()
		time.Sleep(5 * time.Hour)
		f.link.Cut(fault.Both)
		cut := time.Now()

		p = f.page()
		synctest.Wait()
		assert.Empty(t, f.state().Status.Err)
		time.Sleep(15 * time.Second)
		p.take()

		st := f.state()
		assert.NotEmpty(t, st.Status.Err)
		assert.GreaterOrEqual(t, st.Status.Since, cut.UnixMilli())
		f.link.Heal()
		time.Sleep(15 * time.Second)
		p.close()
	})
}

// TestASlowConnectionLoadsTheState: the state is long, and arrives bit by bit.
func TestASlowConnectionLoadsTheState(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 1000 {
			memtest.PutForeign(f.store, "orders", fmt.Sprint("k", i), true)
		}
		p := f.page()
		p.take()
		conn, err := f.pipes.dial(f.t.Context(), "", "")
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET /state HTTP/1.1\r\nHost: ui.test\r\nConnection: close\r\n\r\n"))
		require.NoError(t, err)

		text := 0
		b := make([]byte, 16<<10)
		for err == nil {
			var n int
			n, err = conn.Read(b)
			text += n
			time.Sleep(2 * time.Second)
		}

		require.ErrorIs(t, err, io.EOF)
		assert.Greater(t, text, 100_000, "it took longer than one write may")
		_, whole := f.get("/state")
		assert.Greater(t, text, len(whole))
		require.NoError(t, conn.Close())
		p.close()
	})
}

func TestPagesEndWithTheSession(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		p := f.page()
		p.take()
		require.NoError(t, f.s.Close())
		time.Sleep(2 * time.Second)
		<-p.ended
		res, text := f.get("/events")
		assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		assert.Contains(t, text, "the session is closed")
		assert.Contains(t, f.state().Status.Err, "closed")
		p.close()
	})
}

// TestTheStateShowsThatTheSessionIsClosed: it was closed while no page was open, so no tick
// has shown it, and the state before is the newest.
func TestTheStateShowsThatTheSessionIsClosed(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		p := f.page()
		p.take()
		p.close()
		assert.Empty(t, f.state().Status.Err)
		require.NoError(t, f.s.Close())
		res, _ := f.get("/events")
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)

		assert.Contains(t, f.state().Status.Err, "closed")
	})
}

func TestANilSessionIsAClosedOne(t *testing.T) {
	h := ui.Handler(nil, nil)
	for path, code := range map[string]int{"/": 200, "/state": 200, "/events": 503, "/lock?name=a": 400, "/evict": 403, "/nothing": 404} {
		assert.Equal(t, code, served(h, http.MethodGet, path).Code, path)
	}
}
