package mutex_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a session that is closed at the end of the test.
func open(t *testing.T, c interface {
	Open(ctx context.Context, o *session.Options) (*session.Session, error)
}, o *session.Options,
) *session.Session {
	t.Helper()
	s, err := c.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestGrantsInTheOrderOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		const n = 20
		var mu sync.Mutex
		var order []int
		var tokens []session.Token
		shared := open(t, st, nil)
		first, err := mutex.New(shared, "orders").Lock(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range n {
			s := shared
			if i%3 == 0 { // some through sessions of their own
				s = open(t, st, nil)
			}
			wg.Go(func() {
				err := mutex.New(s, "orders").Do(t.Context(), func(_ context.Context, h *session.Hold) error {
					mu.Lock()
					defer mu.Unlock()
					order, tokens = append(order, i), append(tokens, h.Token())
					return nil
				})
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		require.NoError(t, first.Unlock())
		wg.Wait()

		assert.IsIncreasing(t, order)
		assert.IsIncreasing(t, tokens)
		assert.Empty(t, st.Entries("orders"))
	})
}

func TestTwoGoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, membackend.New(), nil)
		m := mutex.New(s, "n")
		inside, most := 0, 0
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				h, err := m.Lock(t.Context())
				if assert.NoError(t, err) {
					inside++ // no other synchronisation: the race detector is the judge
					most = max(most, inside)
					inside--
					assert.NoError(t, h.Unlock())
				}
			})
		}
		wg.Wait()

		assert.Equal(t, 1, most)
	})
}

func TestCancelledWaiterLeavesNothingAndLetsOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		a, b, c := open(t, st, nil), open(t, st, &session.Options{Label: "middle"}), open(t, st, nil)
		h, err := mutex.New(a, "n").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		middle := make(chan error, 1)
		go func() {
			_, err := mutex.New(b, "n").Lock(ctx)
			middle <- err
		}()
		synctest.Wait()
		last := make(chan *session.Hold, 1)
		go func() {
			h, err := mutex.New(c, "n").Lock(t.Context())
			assert.NoError(t, err)
			last <- h
		}()
		synctest.Wait()
		cancel()
		err = <-middle
		require.ErrorIs(t, err, session.ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Len(t, st.Entries("n"), 2, "the cancelled entry is gone")
		select {
		case <-last:
			t.Fatal("granted while the first still holds: the predecessor only cancelled")
		default:
		}
		require.NoError(t, h.Unlock())

		require.NoError(t, (<-last).Unlock())
		synctest.Wait()
		assert.Empty(t, st.Entries("n"))
	})
}

func TestTryLockWritesNothingWhenTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		a, b := open(t, st, &session.Options{Label: "nightly"}), open(t, st, nil)
		h, err := mutex.New(a, "n").Lock(t.Context())
		require.NoError(t, err)
		before := st.Entries("n")
		_, err = mutex.New(b, "n").TryLock(t.Context())

		require.ErrorIs(t, err, session.ErrNotAcquired)
		var na *session.NotAcquiredError
		require.ErrorAs(t, err, &na)
		assert.Equal(t, "nightly", na.Holder.Meta.Label)
		assert.Contains(t, err.Error(), "(nightly)")
		assert.Equal(t, before, st.Entries("n"))
		require.NoError(t, h.Unlock())
		h, err = mutex.New(b, "n").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock())
	})
}

func TestContextEndsBeforeAnybodyElseCanHold(t *testing.T) {
	for name, dir := range map[string]membackend.Direction{
		"both ways": membackend.Both, "requests": membackend.Requests, "replies": membackend.Replies,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.New()
				ca := st.NewClient()
				a, b := open(t, ca, nil), open(t, st, nil)
				h, err := mutex.New(a, "n").Lock(t.Context())
				require.NoError(t, err)
				var told, next time.Time
				context.AfterFunc(h.Context(), func() { told = time.Now() })
				got := make(chan *session.Hold, 1)
				go func() {
					h2, err := mutex.New(b, "n").Lock(t.Context())
					assert.NoError(t, err)
					next = time.Now()
					got <- h2
				}()
				time.Sleep(7 * time.Second)
				cut := time.Now()
				ca.Cut(dir)
				h2 := <-got
				synctest.Wait()

				assert.Greater(t, h2.Token(), h.Token())
				require.Error(t, h.Context().Err())
				assert.GreaterOrEqual(t, next.Sub(told), a.Options().Margin, "the worker has the whole margin")
				assert.Less(t, next.Sub(cut), 2*session.DefaultTTL)
				var lost *session.LostError
				require.ErrorAs(t, context.Cause(h.Context()), &lost)
				assert.Equal(t, session.ReasonDeadline, lost.Reason)
				assert.Zero(t, h.Valid())
				require.ErrorIs(t, h.Unlock(), session.ErrLost)
				require.NoError(t, h2.Unlock())
				ca.Heal()
				synctest.Wait()
			})
		})
	}
}

func TestDeletedWaiterIsGrantedNothing(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := membackend.New()
			a := open(t, st, nil)
			b, c := a, a
			if !shared {
				b, c = open(t, st, nil), open(t, st, nil)
			}
			h, err := mutex.New(a, "n").Lock(t.Context())
			require.NoError(t, err)
			got := make(chan *session.Hold, 2)
			for _, s := range []*session.Session{b, c} {
				go func() {
					h, err := mutex.New(s, "n").Lock(t.Context())
					assert.NoError(t, err)
					got <- h
				}()
				synctest.Wait()
			}
			waiter := st.Entries("n")[1]
			require.True(t, st.Delete("n", waiter.Key))
			require.NoError(t, h.Unlock())

			first := <-got
			synctest.Wait()
			require.Empty(t, got, "two hold at once")
			assert.Greater(t, int64(first.Token()), waiter.Place, "the deleted one went to the end of the line")
			require.NoError(t, first.Unlock())
			require.NoError(t, (<-got).Unlock())
		})
	}
}

func TestDeletedOrRevokedHolderIsTold(t *testing.T) {
	for name, strike := range map[string]func(*membackend.Store, *session.Hold){
		"entry deleted": func(st *membackend.Store, h *session.Hold) { st.Delete(h.Refs()[0].Line, h.Refs()[0].Key) },
		"session ended": func(st *membackend.Store, _ *session.Hold) { st.Expire(st.Sessions()[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.New()
				h, err := mutex.New(open(t, st, nil), "n").Lock(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Second)
				strike(st, h)
				at := time.Now()
				<-h.Context().Done()

				assert.Zero(t, time.Since(at), "told at once, not at the next renewal")
				require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost)
				require.ErrorIs(t, h.Unlock(), session.ErrLost)
			})
		})
	}
}

func TestLockGoesOnWithAFreshSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		cb := st.NewClient()
		var rejoined, reopened int
		a := open(t, st, nil)
		b := open(t, cb, &session.Options{Hooks: session.Hooks{
			Rejoined:      func(session.Event) { rejoined++ },
			SessionOpened: func(session.Event) { reopened++ },
		}})
		h, err := mutex.New(a, "n").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *session.Hold, 1)
		go func() {
			h, err := mutex.New(b, "n").Lock(t.Context())
			assert.NoError(t, err)
			got <- h
		}()
		synctest.Wait()
		cb.Cut(membackend.Both)
		time.Sleep(time.Minute)
		cb.Heal()
		time.Sleep(5 * time.Second)
		require.Len(t, st.Entries("n"), 2, "the waiter stands in the line again")
		require.NoError(t, h.Unlock())

		require.NoError(t, (<-got).Unlock())
		assert.Equal(t, 1, rejoined)
		assert.Equal(t, 2, reopened)
	})
}

func TestLockCutOffReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		ca, cb := st.NewClient(), st.NewClient()
		a, b := open(t, ca, nil), open(t, cb, nil)
		h, err := mutex.New(a, "n").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := mutex.New(b, "n").Lock(ctx)
			failed <- err
		}()
		synctest.Wait()
		cb.Cut(membackend.Both)
		<-ctx.Done()
		at := time.Now()
		err = <-failed

		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(at), 100*time.Millisecond)
		require.Len(t, st.Entries("n"), 2, "cut off, so it cannot be removed yet")
		cb.Heal()
		time.Sleep(2 * time.Second)
		assert.Len(t, st.Entries("n"), 1, "removed after the heal")
		require.NoError(t, h.Unlock())
	})
}

func TestUnlockTellsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		m := mutex.New(open(t, c, nil), "n")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		c.Cut(membackend.Both)
		at := time.Now()
		err = h.Unlock()

		require.ErrorIs(t, err, session.ErrReleasePending)
		assert.LessOrEqual(t, time.Since(at), time.Second)
		require.ErrorIs(t, context.Cause(h.Context()), session.ErrUnlocked)
		synctest.Wait() // the background has sent its own
		sent := c.Requests(membackend.OpLeave)
		require.ErrorIs(t, h.Unlock(), session.ErrUnlocked)
		assert.Equal(t, sent, c.Requests(membackend.OpLeave), "nothing is sent for a second Unlock")
		c.Heal()
		time.Sleep(3 * time.Second)
		assert.Empty(t, st.Entries("n"))
	})
}

func TestEnqueueOfUnknownOutcomeWedgesNobody(t *testing.T) {
	for name, fault := range map[string]func(*membackend.Client){
		"reply lost":     func(c *membackend.Client) { c.LoseReply(membackend.OpJoin) },
		"request lost":   func(c *membackend.Client) { c.LoseRequest(membackend.OpJoin) },
		"reply broken":   func(c *membackend.Client) { c.BreakReply(membackend.OpJoin) },
		"request broken": func(c *membackend.Client) { c.BreakRequest(membackend.OpJoin) },
		"request arrives late": func(c *membackend.Client) {
			c.LateRequest(membackend.OpJoin, 4*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.New()
				c := st.NewClient()
				a, b := open(t, c, nil), open(t, st, nil)
				fault(c)
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				h, err := mutex.New(a, "n").Lock(ctx)
				if err == nil {
					require.NoError(t, h.Unlock())
				} else {
					require.ErrorIs(t, err, session.ErrNotAcquired)
				}
				time.Sleep(10 * time.Second)

				assert.Empty(t, st.Entries("n"))
				assert.Len(t, st.Sessions(), 2, "the session lives on")
				h, err = mutex.New(b, "n").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Unlock())
			})
		})
	}
}

func TestReentrancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, nil)
		m := mutex.New(s, "n")
		err := m.Do(t.Context(), func(ctx context.Context, h *session.Hold) error {
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, session.ErrReentrant)
			_, err = m.TryLock(h.Context())
			require.ErrorIs(t, err, session.ErrReentrant)

			return mutex.New(s, "other").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
				_, err := m.Lock(ctx) // through another hold's context
				require.ErrorIs(t, err, session.ErrReentrant)
				line, err := s.Queue(ctx, "other")
				require.NoError(t, err)
				assert.Equal(t, []string{"n"}, line[0].Meta.Holds)
				return nil
			})
		})
		require.NoError(t, err)

		r := mutex.NewReentrant(s, "n")
		h1, err := r.Lock(t.Context())
		require.NoError(t, err)
		h2, err := r.Lock(h1.Context())
		require.NoError(t, err)
		assert.Equal(t, h1.Token(), h2.Token())
		require.NoError(t, h1.Unlock())
		require.NoError(t, h2.Context().Err())
		require.Len(t, st.Entries("n"), 1, "given back at the last Unlock")
		require.NoError(t, h2.Unlock())
		assert.Empty(t, st.Entries("n"))
		h3, err := r.Lock(context.WithoutCancel(h2.Context())) // an unlocked hold does not count
		require.NoError(t, err)
		assert.NotEqual(t, h1.Token(), h3.Token())
		require.NoError(t, h3.Unlock())
	})
}

func TestDoGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := mutex.New(open(t, st, nil), "n")
		boom := errors.New("boom")
		require.ErrorIs(t, m.Do(t.Context(), func(context.Context, *session.Hold) error { return boom }), boom)
		assert.Empty(t, st.Entries("n"))
		assert.PanicsWithValue(t, "boom", func() {
			_ = m.Do(t.Context(), func(context.Context, *session.Hold) error { panic("boom") })
		})
		assert.Empty(t, st.Entries("n"))

		err := m.Do(t.Context(), func(ctx context.Context, h *session.Hold) error {
			st.Delete("n", h.Refs()[0].Key)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, session.ErrLost, "a nil of fn does not hide a loss")

		ctx, cancel := context.WithCancel(t.Context())
		err = m.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			cancel()
			<-ctx.Done()
			assert.Len(t, st.Entries("n"), 1, "the end of ctx alone does not give back")
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, session.ErrLost)
		assert.Empty(t, st.Entries("n"))
	})
}

func TestBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		for _, name := range []string{"", string(make([]byte, 513)), "a\xff", "a\x00b"} {
			_, err := mutex.New(s, name).Lock(t.Context())
			require.ErrorIs(t, err, session.ErrInvalidName)
			_, err = mutex.New(s, name).Queue(t.Context())
			require.ErrorIs(t, err, session.ErrInvalidName)
		}
		assert.Zero(t, c.Requests(membackend.OpJoin))
		_, err = mutex.New(nil, "n").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrClosed)

		st.PutForeign("n", "left-behind", false)
		_, err = mutex.New(s, "n").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrForeignKey)
		require.ErrorContains(t, err, "left-behind")
		synctest.Wait()
		require.Len(t, st.Entries("n"), 1)

		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		_, err = mutex.New(s, "m").Lock(t.Context())
		require.ErrorIs(t, err, session.ErrClosed)

		for _, o := range []session.Options{
			{TTL: time.Millisecond},
			{TTL: 10 * time.Second, Margin: 10 * time.Second},
			{TTL: 10 * time.Second, Margin: 9 * time.Second},
			{Margin: -1},
			{Label: string(make([]byte, 129))},
		} {
			_, err := st.Open(t.Context(), &o)
			require.ErrorIs(t, err, session.ErrInvalidOptions)
		}
	})
}

func TestSessionCloseHandsOnAndEndsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		a, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		h, err := mutex.New(a, "n").Lock(t.Context())
		require.NoError(t, err)
		waits := make(chan error, 1)
		go func() {
			_, err := mutex.New(a, "n").Lock(t.Context())
			waits <- err
		}()
		synctest.Wait()
		go func() {
			<-h.Context().Done()
			time.Sleep(time.Second) // a worker that stops within the margin
			assert.ErrorIs(t, h.Unlock(), session.ErrLost)
		}()
		at := time.Now()
		require.NoError(t, a.Close())

		assert.Equal(t, time.Second, time.Since(at), "closed when the last hold was unlocked")
		assert.Empty(t, st.Entries("n"))
		assert.Empty(t, st.Sessions())
		require.ErrorIs(t, <-waits, session.ErrClosed)
		var lost *session.LostError
		require.ErrorAs(t, context.Cause(h.Context()), &lost)
		assert.Equal(t, session.ReasonClosed, lost.Reason)
	})
}

func TestHandOffNeedsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		first, err := mutex.New(open(t, st, nil), "n").Lock(t.Context())
		require.NoError(t, err)
		const n = 5
		var clients [n]*membackend.Client
		var holds [n]chan *session.Hold
		for i := range n {
			clients[i], holds[i] = st.NewClient(), make(chan *session.Hold, 1)
			s := open(t, clients[i], nil)
			go func() {
				h, err := mutex.New(s, "n").Lock(t.Context())
				assert.NoError(t, err)
				holds[i] <- h
			}()
			synctest.Wait()
		}
		h := first
		for i := range n {
			time.Sleep(time.Second)
			looks := clients[i].Requests(membackend.OpLook)
			require.NoError(t, h.Unlock())
			h = <-holds[i]

			assert.Equal(t, looks, clients[i].Requests(membackend.OpLook), "waiter %d", i)
		}
		require.NoError(t, h.Unlock())
	})
}

func TestChainOfOneSessionNeedsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		m := mutex.New(open(t, c, nil), "n")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		const n = 100
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				h, err := m.Lock(t.Context())
				if assert.NoError(t, err) {
					assert.NoError(t, h.Unlock())
				}
			})
		}
		synctest.Wait()
		looks := c.Requests(membackend.OpLook)
		require.NoError(t, h.Unlock())
		wg.Wait()

		assert.Equal(t, looks, c.Requests(membackend.OpLook))
		assert.Equal(t, n+1, c.Requests(membackend.OpLeave))
	})
}

func TestAloneCostsTwoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		m := mutex.New(open(t, c, nil), "n")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock())

		assert.Equal(t, 1, c.Requests(membackend.OpJoin))
		assert.Equal(t, 1, c.Requests(membackend.OpLeave))
		assert.Zero(t, c.Requests(membackend.OpLook))
		assert.Zero(t, c.Requests(membackend.OpWatch))
	})
}

func TestLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := mutex.New(open(t, st, nil), "n")
		l := m.Locker(t.Context())
		assert.Panics(t, l.Unlock)
		l.Lock()
		assert.NotZero(t, l.Hold().Token())
		l.Unlock()
		assert.Nil(t, l.Hold())
		assert.Empty(t, st.Entries("n"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Panics(t, m.Locker(ctx).Lock)
	})
}
