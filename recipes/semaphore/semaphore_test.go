package semaphore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a session that is closed at the end of the test.
func open(t *testing.T, b driver.Backend) *session.Session {
	t.Helper()
	s, err := session.Engine(door.Key{}).Open(t.Context(), b, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// TestATryThatLosesARaceLeavesNoEntry: the queue has room when it is read, and none any more
// when the entry is made.
func TestATryThatLosesARaceLeavesNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		h, err := semaphore.New(open(t, st.Backend()), "gpu", 3).Acquire(t.Context(), 1)
		require.NoError(t, err)
		c := st.NewClient()
		m := semaphore.New(open(t, c.Backend()), "gpu", 3)
		c.OnSend(func(op fault.Op) {
			if op == fault.Join && c.Sent(op) == 1 {
				memtest.PutForeign(st, "gpu", "x", true)
			}
		})
		at := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = m.TryAcquire(ctx, 1)

		var na *session.NotAcquiredError
		require.ErrorAs(t, err, &na)
		assert.Equal(t, 2, na.Ahead)
		assert.Zero(t, time.Since(at), "it has not waited")
		synctest.Wait()
		assert.Len(t, memtest.Entries(st, "gpu"), 2, "its entry has left")
		assert.Equal(t, 2, c.Sent(fault.Join), "the race was run")
		st.Delete("gpu", "x")
		require.NoError(t, h.Unlock())
	})
}

// watched is a backend whose views go through a function before the client sees them.
type watched struct {
	driver.Backend
	view func(*driver.View)
}

func (b watched) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	return watchedSession{s, b.view}, err
}

type watchedSession struct {
	driver.Session
	view func(*driver.View)
}

func (s watchedSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.Session.Read(ctx, req)
	s.view(&v)
	return v, err
}

// TestARequestThatFindsNoLimitJoinsAgain: a clean-up has deleted the limit under two waiters. One of
// them makes it anew, and no call of theirs fails.
func TestARequestThatFindsNoLimitJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		h, err := semaphore.New(open(t, st.Backend()), "gpu", 3).Acquire(t.Context(), 3)
		require.NoError(t, err)
		m := semaphore.New(open(t, st.Backend()), "gpu", 3)
		got := make(chan error, 2)
		for range 2 {
			go func() { got <- m.Do(t.Context(), 2, func(context.Context, *session.Hold) error { return nil }) }()
		}
		synctest.Wait()
		require.Empty(t, got)
		operator, err := st.Backend().Open(t.Context(), driver.Config{Observer: true})
		require.NoError(t, err)
		_, err = operator.Update(t.Context(), driver.UpdateRequest{Queue: "gpu", Ops: []driver.Op{{Record: "limit", If: driver.Equal([]byte("3"))}}})
		require.NoError(t, err)
		require.NoError(t, operator.Close(t.Context()))
		require.Empty(t, memtest.Records(st, "gpu"))
		time.Sleep(time.Minute) // at the latest when they read without an event

		require.Empty(t, got, "they wait for the permits")
		assert.Equal(t, "3", string(memtest.Records(st, "gpu")["limit"].Value))
		assert.Len(t, memtest.Entries(st, "gpu"), 3)
		require.NoError(t, h.Unlock())
		require.NoError(t, <-got)
		require.NoError(t, <-got)
	})
}

// TestARefusedRequestIsRefusedOnce has an entry stay that was refused, and the queue read
// again for another request: then the reason would be another one.
func TestARefusedRequestIsRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		other := semaphore.New(open(t, st.Backend()), "gpu", 3)
		h, err := other.Acquire(t.Context(), 3)
		require.NoError(t, err)
		c := st.NewClient()
		var reads atomic.Int64
		reads.Store(-1)
		m := semaphore.New(open(t, watched{c.Backend(), func(v *driver.View) {
			switch reads.Load() {
			case 0: // the limit is too low now; before it is seen, it changes again
				assert.NoError(t, other.Resize(t.Context(), 1))
				synctest.Wait()
			case 1:
				delete(v.Records, "limit")
			}
			if reads.Load() >= 0 {
				reads.Add(1)
			}
		}}), "gpu", 3)
		got, behind := make(chan error, 1), make(chan error, 1)
		go func() { got <- m.Do(t.Context(), 3, func(context.Context, *session.Hold) error { return nil }) }()
		synctest.Wait()
		go func() { behind <- m.Do(t.Context(), 1, func(context.Context, *session.Hold) error { return nil }) }()
		synctest.Wait()
		reads.Store(0)
		c.Inject(fault.Leave, fault.LostRequest) // so that it stays until then
		require.NoError(t, other.Resize(t.Context(), 2))

		require.ErrorIs(t, <-got, session.ErrWeight)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, <-behind, session.ErrLimitMismatch, "the queue was read again, and showed no limit, so it has joined again")
		assert.Len(t, memtest.Entries(st, "gpu"), 1)
		require.NoError(t, h.Unlock())
	})
}

// TestALimitThatBecomesTheCallersIsNoMismatch: a join is refused for another limit, which the
// service does not show. When it is read, it was changed to the caller's, or deleted.
func TestALimitThatBecomesTheCallersIsNoMismatch(t *testing.T) {
	for name, value := range map[string][]byte{"Resized": []byte("12"), "Deleted": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memtest.NewWith(memory.Options{Terse: true})
				other := open(t, st.Backend())
				held, err := semaphore.New(other, "gpu", 8).Acquire(t.Context(), 1)
				require.NoError(t, err)
				operator, err := session.Engine(door.Key{}).Of(other).Live(t.Context())
				require.NoError(t, err)
				c := st.NewClient()
				s := open(t, c.Backend())
				c.OnSend(func(op fault.Op) {
					if op == fault.Join {
						return
					}
					c.OnSend(nil)
					_, err := operator.Driver().Update(t.Context(), driver.UpdateRequest{
						Queue: "gpu", Ops: []driver.Op{{Record: "limit", If: driver.Equal([]byte("8")), Value: value}},
					})
					assert.NoError(t, err)
				})
				h, err := semaphore.New(s, "gpu", 12).Acquire(t.Context(), 1)

				require.NoError(t, err)
				assert.EqualValues(t, 12, st.Limit("gpu"))
				require.NoError(t, h.Unlock())
				require.NoError(t, held.Unlock())
			})
		})
	}
}

// slowly is a backend whose first Update returns a second after it was done.
type slowly struct{ driver.Backend }

func (b slowly) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	return &slowSession{Session: s}, err
}

type slowSession struct {
	driver.Session
	updates atomic.Int64
}

func (s *slowSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	results, err := s.Session.Update(ctx, req)
	if s.updates.Add(1) == 1 {
		time.Sleep(time.Second)
	}
	return results, err
}

// TestResizesAtOnceLeaveTheLastLimit has the answer to the first of two come last.
func TestResizesAtOnceLeaveTheLastLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := semaphore.New(open(t, slowly{st.Backend()}), "gpu", 4)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- m.Resize(t.Context(), 8) }()
		synctest.Wait()
		go func() { second <- m.Resize(t.Context(), 12) }()
		synctest.Wait()
		require.NoError(t, <-first)
		require.NoError(t, <-second)

		assert.EqualValues(t, 12, st.Limit("gpu"))
		h, err := m.Acquire(t.Context(), 12)
		require.NoError(t, err)
		require.NoError(t, h.Unlock())
	})
}

// TestAResizeThatWaitsForAnotherReturnsWithItsContext, and one of a zero Semaphore does not wait.
func TestAResizeThatWaitsForAnotherReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := semaphore.New(open(t, slowly{st.Backend()}), "gpu", 4)
		first := make(chan error, 1)
		go func() { first <- m.Resize(t.Context(), 8) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		at := time.Now()
		err := m.Resize(ctx, 12)
		require.ErrorIs(t, err, session.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Millisecond, time.Since(at))
		require.NoError(t, <-first)
		assert.EqualValues(t, 8, st.Limit("gpu"), "nothing was sent")
		require.ErrorIs(t, new(semaphore.Semaphore).Resize(t.Context(), 1), session.ErrClosed)
	})
}

func TestTryDoCallsNothingWithoutPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := semaphore.New(open(t, membackend.New().Backend()), "gpu", 3)
		calls := 0
		err := m.TryDo(t.Context(), 2, func(ctx context.Context, _ *session.Hold) error {
			calls++
			return m.TryDo(t.Context(), 2, func(context.Context, *session.Hold) error {
				calls++
				return nil
			})
		})
		require.ErrorIs(t, err, session.ErrNotAcquired)
		assert.Equal(t, 1, calls)
		require.NoError(t, m.TryDo(t.Context(), 3, func(context.Context, *session.Hold) error { return nil }))
	})
}

// TestReadForAnotherRecipeRefusesNoRequest: a mutex of the same name and process reads the
// queue without the limit.
func TestReadForAnotherRecipeRefusesNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		held, err := mutex.New(open(t, st.Backend()), "n").Lock(t.Context())
		require.NoError(t, err)
		s := open(t, st.Backend())
		permit, lock := make(chan error, 1), make(chan error, 1)
		go func() {
			h, err := semaphore.New(s, "n", 1).Acquire(t.Context(), 1)
			if err == nil {
				err = h.Unlock()
			}
			permit <- err
		}()
		synctest.Wait()
		go func() {
			h, err := mutex.New(s, "n").Lock(t.Context())
			if err == nil {
				err = h.Unlock()
			}
			lock <- err
		}()
		synctest.Wait()
		require.NoError(t, held.Unlock())

		require.NoError(t, <-permit)
		require.NoError(t, <-lock)
	})
}
