package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

// Crashes has worker processes acquire locks by the job's recipe, kills some of them, and
// starts others in their place. By the reports of the workers and the times of the kills
// it checks exclusion, that tokens rise, that deaths are reported to the next holder, and
// that the others went on. In the end all workers have left; the caller checks what is
// left at the service.
func (j Job) Crashes(t *testing.T, workers, kills int) {
	j.Do = Work
	var mu sync.Mutex
	var spells []Spell
	var released atomic.Int64
	var listening sync.WaitGroup
	start := func() *worker {
		w := &worker{Process: j.Start(t), done: make(chan struct{})}
		listening.Go(func() {
			defer close(w.done)
			w.listen(t, &released)
			mu.Lock()
			defer mu.Unlock()
			spells = append(spells, w.spells...)
		})
		return w
	}
	var team []*worker
	for range workers {
		team = append(team, start())
	}
	for n := range kills {
		<-time.After(j.TTL/4 + rand.N(j.TTL/4))
		i := rand.N(len(team))
		team[i].crash(t, n%2 == 0)
		team[i] = start()
	}
	<-time.After(2 * j.TTL) // so that the sessions of the killed workers have expired
	for end := time.Now().Add(recipetest.Patience); released.Load() <= enough(kills) && time.Now().Before(end); {
		<-time.After(j.TTL / 20) // the machine is busy
	}
	for _, w := range team {
		w.Send(t, "stop")
	}
	listening.Wait()
	for _, w := range team {
		w.Ends(t)
	}
	checkSpells(t, j.Recipe, kills, spells)
}

// enough is how many holds must be released at least, for a number of kills.
func enough(kills int) int64 { return 5 * int64(kills) }

// worker is a process that does Work.
type worker struct {
	*Process
	done   chan struct{}
	killed driver.Instant // 0 if it was not killed when it kept a hold
	spells []Spell
}

// listen reads the reports of the worker until it ends, and counts the holds that it
// releases.
func (w *worker) listen(t *testing.T, released *atomic.Int64) {
	for {
		var s Spell
		err := w.out.Decode(&s)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				var syntax *json.SyntaxError
				assert.ErrorAs(t, err, &syntax, "cut off in the middle of a report")
			}
			return
		}
		if s.Released {
			released.Add(1)
		}
		if s.Kept && s.End == 0 {
			w.killed = recipetest.Now()
			_ = w.Signal(os.Kill)
		}
		if n := len(w.spells); n > 0 && w.spells[n-1].Token == s.Token {
			w.spells[n-1] = s
		} else {
			w.spells = append(w.spells, s)
		}
	}
}

// crash kills the worker: while it holds, if it is granted in time, or at once, when it
// mostly waits. It held its locks until it was killed, as far as is known: the time is taken
// before the signal, because this process may stand still after it.
func (w *worker) crash(t *testing.T, holding bool) {
	if holding {
		w.Send(t, keep)
		select {
		case <-w.done:
		case <-time.After(recipetest.Patience / 20):
		}
	}
	killed := recipetest.Now()
	w.Halt()
	<-w.done           // all that it wrote is read
	if w.killed != 0 { // it kept its hold
		killed = w.killed
	}
	for i := range w.spells {
		if s := &w.spells[i]; s.End == 0 {
			s.End, s.Killed = max(s.Begin, killed), true
		}
	}
}

// checkSpells checks what workers with one recipe have reported.
func checkSpells(t *testing.T, recipe string, kills int, spells []Spell) {
	t.Helper()
	slices.SortFunc(spells, func(a, b Spell) int { return cmp.Compare(a.Begin, b.Begin) })
	checkExclusion(t, spells)
	died, lost, released, slots := 0, 0, int64(0), map[int]Spell{}
	for i, s := range spells {
		switch {
		case s.Released:
			released++
		case !s.Killed:
			lost++ // by a busy machine, or its release was late
		}
		if s.Died {
			died++
		}
		if s.Slot >= 0 {
			if before, ok := slots[s.Slot]; ok {
				assert.Greater(t, s.Token, before.Token, "tokens of slot %d", s.Slot)
				assert.GreaterOrEqual(t, s.Begin, before.End, "two in slot %d", s.Slot)
			}
			slots[s.Slot] = s
		}
		if i == 0 || recipe == "rwlock" || recipe == "semaphore" {
			continue
		}
		before := spells[i-1]
		if recipe != "all" { // two of two pairs each may share no lock
			assert.Greater(t, s.Token, before.Token)
		}
		if recipe == "robust" && before.Killed {
			assert.True(t, s.Died, "the holder before it was killed at work")
		}
	}
	if recipe == "robust" {
		assert.LessOrEqual(t, died, kills+lost, "deaths that were reported")
		assert.Positive(t, died, "deaths that were reported")
	}
	require.Greater(t, released, enough(kills), "holds")
	t.Logf("%s: %d holds, %d killed, %d with a death before them", recipe, len(spells), kills, died)
}

// checkExclusion checks that at most Limit was held at any time.
func checkExclusion(t *testing.T, spells []Spell) {
	t.Helper()
	var working []Spell
	for _, s := range spells {
		working = slices.DeleteFunc(working, func(o Spell) bool { return o.End <= s.Begin })
		working = append(working, s)
		var sum int64
		for _, o := range working {
			sum += o.Weight
		}
		if sum > Limit {
			assert.Fail(t, "held at once", "%+v", working)
			return
		}
	}
}
