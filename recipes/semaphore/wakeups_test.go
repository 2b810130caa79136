package semaphore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/membackend/memtest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waiter is one request in a session of its own, and what that session has been
// through.
type waiter struct {
	c       *membackend.Client
	watches *memtest.Watches
	got     chan *session.Hold
	cancel  context.CancelFunc

	sawEvents, sawLooks int64 // up to the last call of since
}

// since returns how many events and looks there were since the last call.
func (r *waiter) since() (events, looks int64) {
	e, l := r.watches.Told(), int64(r.c.Sent(fault.Look))
	events, looks = e-r.sawEvents, l-r.sawLooks
	r.sawEvents, r.sawLooks = e, l
	return events, looks
}

// open opens a session that is closed at the end of the test.
func open(t *testing.T, b driver.Backend) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), b, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// wait has a request stand in the line, in a session of its own.
func wait(t *testing.T, st *membackend.Store, n, limit int64) *waiter {
	t.Helper()
	r := &waiter{c: st.NewClient(), got: make(chan *session.Hold, 1)}
	r.watches = memtest.CountWatches(r.c.Backend())
	s := open(t, r.watches)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(t.Context())
	t.Cleanup(r.cancel)
	go func() {
		if h, err := semaphore.New(s, "gpu", limit).Acquire(ctx, n); err == nil {
			r.got <- h
		}
	}()
	synctest.Wait()
	return r
}

// full takes all permits in one session, one by one but for what is more than a
// hundred, and lets the moment pass after which holders have noted it.
func full(t *testing.T, st *membackend.Store, limit int64) []*session.Hold {
	t.Helper()
	m := semaphore.New(open(t, st.Backend()), "gpu", limit)
	var holds []*session.Hold
	acquire := func(n int64) {
		h, err := m.Acquire(t.Context(), n)
		require.NoError(t, err)
		holds = append(holds, h)
	}
	for range min(limit, 100) {
		acquire(1)
	}
	if limit > 100 {
		acquire(limit - 100)
	}
	time.Sleep(time.Second)
	return holds
}

// TestAReleaseWakesOneWhoCannotProceed counts what a release sets off among 50
// who wait, each in a session of its own. No time passes in between, so nobody
// looks for any other reason.
func TestAReleaseWakesOneWhoCannotProceed(t *testing.T) {
	for _, k := range memtest.Kinds() {
		for _, limit := range []int64{1, 10, 1000} {
			t.Run(fmt.Sprintf("%s/%d", k.Name, limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { countReleases(t, membackend.NewWith(&k.Options), limit) })
			})
		}
	}
}

func countReleases(t *testing.T, st *membackend.Store, limit int64) {
	holds := full(t, st, limit)
	var line []*waiter
	for range 50 {
		line = append(line, wait(t, st, 1, limit))
	}
	var events, looks int64
	for range 20 {
		for _, r := range line {
			r.since()
		}
		require.NoError(t, holds[0].Unlock())
		synctest.Wait()

		require.Len(t, line[0].got, 1, "the first one fits")
		holds = append(holds[1:], <-line[0].got)
		for i, r := range line {
			e, l := r.since()
			events, looks = events+e, looks+l
			if i > 1 {
				assert.Zero(t, e, "events for number %d, who cannot proceed", i)
				assert.Zero(t, l, "looks of number %d, who cannot proceed", i)
			}
		}
		line = line[1:]
	}
	t.Logf("limit %d: %.2f events and %.2f looks for each release", limit, float64(events)/20, float64(looks)/20)
	assert.LessOrEqual(t, events, int64(20*3))
	assert.LessOrEqual(t, looks, int64(20*3))
	giveBack(t, holds, line)
}

// giveBack ends the test with nothing left.
func giveBack(t *testing.T, holds []*session.Hold, line []*waiter) {
	t.Helper()
	for _, r := range line {
		r.cancel()
	}
	synctest.Wait()
	for _, h := range holds {
		require.NoError(t, h.Unlock())
	}
}

// TestAReleaseThatIsNotEnoughWakesTheFirstOnly has a request for all permits in
// front of many small ones.
func TestAReleaseThatIsNotEnoughWakesTheFirstOnly(t *testing.T) {
	for _, k := range memtest.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.NewWith(&k.Options)
				holds := full(t, st, 10)
				line := []*waiter{wait(t, st, 10, 10)}
				for range 49 {
					line = append(line, wait(t, st, 1, 10))
				}
				for range 9 {
					for _, r := range line {
						r.since()
					}
					require.NoError(t, holds[0].Unlock())
					holds = holds[1:]
					synctest.Wait()

					e, l := line[0].since()
					assert.EqualValues(t, 1, e)
					assert.EqualValues(t, 1, l)
					for i, r := range line[1:] {
						e, l := r.since()
						assert.Zero(t, e+l, "number %d", i+1)
					}
				}
				require.NoError(t, holds[0].Unlock())
				synctest.Wait()
				require.Len(t, line[0].got, 1)
				giveBack(t, []*session.Hold{<-line[0].got}, line[1:])
			})
		})
	}
}

// TestManyPermitsAdmitManyAtOnce: k that are given back at once admit k, and one
// more looks.
func TestManyPermitsAdmitManyAtOnce(t *testing.T) {
	for _, k := range memtest.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = 20
				st := membackend.NewWith(&k.Options)
				h, err := semaphore.New(open(t, st.Backend()), "gpu", limit).Acquire(t.Context(), limit)
				require.NoError(t, err)
				time.Sleep(time.Second)
				var line []*waiter
				for range 50 {
					line = append(line, wait(t, st, 1, limit))
				}
				for _, r := range line {
					r.since()
				}
				require.NoError(t, h.Unlock())
				synctest.Wait()

				var holds []*session.Hold
				var looks int64
				for i, r := range line {
					e, l := r.since()
					if looks += l; i < limit {
						require.Len(t, r.got, 1, "number %d", i)
						holds = append(holds, <-r.got)
					} else {
						assert.Empty(t, r.got, "number %d", i)
					}
					if i > limit {
						assert.Zero(t, e+l, "number %d", i)
					}
				}
				t.Logf("%d looks for %d permits", looks, limit)
				assert.LessOrEqual(t, looks, int64(3*limit))
				giveBack(t, holds, line[limit:])
			})
		})
	}
}
