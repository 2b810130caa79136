package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Limit is that of the semaphores that workers use.
const Limit = 5

// Recipes are what Job.Recipe can be.
func Recipes() []string { return []string{"mutex", "robust", "all", "rwlock", "semaphore", "election"} }

// Spell is one hold of a worker, as far as the worker could report it: when it has begun,
// when its work has ended, and when it was released.
type Spell struct {
	Token    int64
	PID      int
	Weight   int64 // permits; of the others 1 for a reader, and else Limit
	Slot     int
	Died     bool // the hold reports that the one before was not released
	Begin    driver.Instant
	End      driver.Instant // 0 while it works
	Kept     bool           // until the worker is killed
	Released bool           // it is known to have been released
	Killed   bool           `json:"-"` // at work; a worker that was killed later may have released
}

// keep, on standard input, makes a worker keep its next hold.
const keep = "keep"

// work acquires locks by a recipe until standard input has "stop", or ends.
func (j Job) work(ctx context.Context, s *session.Session) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var keeps atomic.Bool
	go func() { // ends with the process
		defer stop()
		in, command := json.NewDecoder(os.Stdin), ""
		for in.Decode(&command) == nil && command == keep {
			keeps.Store(true)
		}
	}()
	out := json.NewEncoder(os.Stdout)
	for {
		h, weight, err := j.take(ctx, s)
		if ctx.Err() != nil {
			if h != nil {
				err = h.Unlock()
			}
			return ignore(err, session.ErrNotAcquired, session.ErrReleasePending, session.ErrLost)
		}
		if err != nil {
			return err
		}
		sp := Spell{Token: int64(h.Token()), PID: os.Getpid(), Weight: weight, Slot: h.Slot(), Died: h.PreviousDied(), Kept: keeps.Load(), Begin: recipetest.Now()}
		if err := out.Encode(sp); err != nil {
			return err
		}
		if sp.Kept {
			<-ctx.Done()
		}
		begin := recipetest.Now()
		deadline := begin.Add(h.Remaining())
		<-time.After(rand.N(5 * time.Millisecond)) // at work
		sp.End = recipetest.Now()
		lost := h.Remaining() == 0
		if lost { // the process may have stood still past the deadline
			sp.End = max(sp.Begin, min(sp.End, deadline))
		}
		err = out.Encode(sp)
		if e := h.Unlock(); e == nil {
			sp.Released = true
			err = errors.Join(err, out.Encode(sp))
		} else if !lost {
			err = errors.Join(err, ignore(e, session.ErrReleasePending, session.ErrLost))
		}
		if err != nil {
			return err
		}
	}
}

func ignore(err error, these ...error) error {
	for _, e := range these {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// take acquires one hold.
func (j Job) take(ctx context.Context, s *session.Session) (h *session.Hold, weight int64, err error) {
	weight = Limit
	switch j.Recipe {
	case "mutex":
		h, err = mutex.New(s, j.Name).Lock(ctx)
	case "robust":
		h, err = mutex.NewWith(s, j.Name, mutex.Options{Robust: true}).Lock(ctx)
	case "all":
		locks := []*mutex.Mutex{mutex.New(s, j.Name), mutex.New(s, j.Name+"-b"), mutex.New(s, j.Name+"-c")}
		rand.Shuffle(len(locks), func(a, b int) { locks[a], locks[b] = locks[b], locks[a] })
		h, err = mutex.LockAll(ctx, locks[:2]...) // of any two pairs, one is common
	case "rwlock":
		if rand.N(4) > 0 {
			weight = 1
			h, err = rwlock.New(s, j.Name).RLock(ctx)
		} else {
			h, err = rwlock.New(s, j.Name).Lock(ctx)
		}
	case "semaphore":
		weight = 1 + rand.N[int64](3)
		h, err = semaphore.NewWith(s, j.Name, Limit, semaphore.Options{Slots: true}).Acquire(ctx, weight)
	case "election":
		h, err = election.New(s, j.Name).Campaign(ctx, fmt.Sprint(os.Getpid()))
	default:
		err = fmt.Errorf("worker: no recipe %q", j.Recipe)
	}
	return h, weight, err
}
