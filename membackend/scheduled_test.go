package membackend_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// task is something that a schedule does at a time.
type task struct {
	due time.Duration
	f   func()
}

// schedule is a memory.Schedule, and the wire of its only client, which does one thing
// at a time. Everything that travels takes a millisecond.
type schedule struct {
	mu    sync.Mutex
	now   time.Duration
	tasks []*task
	log   []string
}

func (s *schedule) after(d time.Duration, f func()) func() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &task{s.now + d, f}
	s.tasks = append(s.tasks, t)
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := len(s.tasks)
		s.tasks = slices.DeleteFunc(s.tasks, func(o *task) bool { return o == t })
		return len(s.tasks) < n
	}
}

func (s *schedule) record(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

func (s *schedule) Now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *schedule) After(_ string, d time.Duration, f func()) { s.after(d, f) }
func (s *schedule) Changed(queue string)                      { s.record("changed " + queue) }
func (s *schedule) Expired(session string)                    { s.record("expired " + session) }
func (s *schedule) Wire() memory.Wire                         { return wire{s} }

// wire is a schedule as a memory.Wire.
type wire struct{ s *schedule }

func (w wire) Now() driver.Instant { return driver.Instant(w.s.Now() + time.Hour) }
func (w wire) Wall() time.Time     { return time.Unix(0, 0) }
func (w wire) AfterFunc(d time.Duration, f func()) func() bool {
	return w.s.after(d, func() { go f() })
}

func (w wire) Send(r memory.Request) {
	w.s.after(time.Millisecond, func() {
		if !r.Launch() {
			return
		}
		if r.Op != fault.Renew {
			w.s.record(string(r.Op) + " " + r.Of)
		}
		r.Arrive(false) // a copy without an answer
		if answer := r.Arrive(true); answer != nil {
			w.s.after(time.Millisecond, answer)
		}
	})
}

func (w wire) Deliver(lane, what string, f func()) {
	w.s.after(time.Millisecond, func() {
		w.s.record(lane + ": " + what)
		f()
	})
}

// run does the tasks that are due, one after the other, while f runs.
func (s *schedule) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
		}
		s.mu.Lock()
		t := slices.MinFunc(s.tasks, func(a, b *task) int { return int(a.due - b.due) })
		s.tasks = slices.DeleteFunc(s.tasks, func(o *task) bool { return o == t })
		s.now = t.due
		s.mu.Unlock()
		t.f()
	}
}

func TestScheduleDecidesWhenEverythingHappens(t *testing.T) {
	for _, disorder := range []uint64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			x := &schedule{}
			st := inner().New(memory.Options{Disorder: disorder}, x)
			b := st.NewClient().Backend()
			open := func() driver.Session {
				s, err := b.Open(t.Context(), driver.Config{
					TTL: ttl, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
					Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
				})
				assert.NoError(t, err)
				return s
			}
			events := &list[driver.Event]{}
			x.run(func() {
				s, other := open(), open()
				e := join(t, s, "jobs")
				s.Watch(e.Target(), events.add)
				driver.Sleep(t.Context(), b.Info().Clock, time.Minute) // it is renewed
				assert.Len(t, st.Sessions(), 2)
				left, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: e.Ref})
				assert.NoError(t, err)
				assert.Equal(t, []driver.Left{driver.Unclear}, left, "a copy came first")
				join(t, other, "jobs")
				other.Abandon()
				driver.Sleep(t.Context(), b.Info().Clock, ttl)
				assert.NoError(t, s.Close(context.Background()))
			})

			require.Equal(t, []driver.Event{armed, gone}, events.get())
			lane := "m1"
			if disorder != 0 {
				lane = "m1 {0 jobs {jobs jobs#m1.0 1} }"
			}
			assert.Equal(t, []string{
				"open ", "open ", `join "jobs" and 0 more`, "changed jobs",
				"watch {0 jobs {jobs jobs#m1.0 1} }", lane + ": armed {0 jobs {jobs jobs#m1.0 1} }",
				"leave {jobs jobs#m1.0 1}", "changed jobs", lane + ": gone {0 jobs {jobs jobs#m1.0 1} }",
				`join "jobs" and 0 more`, "changed jobs", "changed jobs", "expired m2", "close m1",
			}, x.log)
			assert.Greater(t, x.Now(), time.Minute+ttl)
		})
	}
}
