package child

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

// Crashes has worker processes take holds by the job's recipe while some of them
// are killed, and others started in their place. It checks that no two held who
// must not, by what they reported and when they were killed; that tokens rise;
// that those are told of a death who must be; and that all went on after it. In
// the end everybody has left: what is at the service then the caller knows how to
// see.
func (j Job) Crashes(t *testing.T, workers, kills int) {
	j.Do = Work
	var mu sync.Mutex
	var spells []Spell
	var given atomic.Int64
	var listening sync.WaitGroup
	start := func() *worker {
		w := &worker{Process: j.Start(t), done: make(chan struct{})}
		listening.Go(func() {
			defer close(w.done)
			w.listen(t, &given)
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
	<-time.After(2 * j.TTL) // so that the last of the dead have expired
	for end := time.Now().Add(recipetest.Patience); given.Load() <= enough(kills) && time.Now().Before(end); {
		<-time.After(j.TTL / 20) // the machine is busy
	}
	for _, w := range team {
		w.Tell(t, "stop")
	}
	listening.Wait()
	for _, w := range team {
		w.Ends(t)
	}
	checkSpells(t, j.Recipe, kills, spells)
}

// enough is how many holds have to be given back for so many kills to show
// anything.
func enough(kills int) int64 { return 5 * int64(kills) }

// worker is a process that works.
type worker struct {
	*Process
	done   chan struct{}
	killed driver.Instant
	spells []Spell
}

// listen takes in what the worker reports, until it ends, and counts the holds that
// it gives back.
func (w *worker) listen(t *testing.T, given *atomic.Int64) {
	for {
		var s Spell
		err := w.out.Decode(&s)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				var syntax *json.SyntaxError
				assert.ErrorAs(t, err, &syntax, "cut off in a word")
			}
			return
		}
		if s.Given {
			given.Add(1)
		}
		if s.Kept && s.End == 0 {
			_ = w.Signal(os.Kill)
		}
		if n := len(w.spells); n > 0 && w.spells[n-1].Token == s.Token {
			w.spells[n-1] = s
		} else {
			w.spells = append(w.spells, s)
		}
	}
}

// crash kills the worker: while it holds, if it comes to hold in time, or at once,
// when it mostly waits. What it held it held until now.
func (w *worker) crash(t *testing.T, holding bool) {
	if holding {
		w.Tell(t, keep)
		select {
		case <-w.done:
		case <-time.After(recipetest.Patience / 4):
		}
	}
	w.Halt()
	<-w.done // all that it wrote is read
	w.killed = recipetest.Now()
	for i := range w.spells {
		if w.spells[i].End == 0 {
			w.spells[i].End, w.spells[i].Killed = w.killed, true
		}
	}
}

// checkSpells checks what workers with one recipe have reported.
func checkSpells(t *testing.T, recipe string, kills int, spells []Spell) {
	t.Helper()
	slices.SortFunc(spells, func(a, b Spell) int { return cmp.Compare(a.Begin, b.Begin) })
	checkExclusion(t, spells)
	died, given, slots := 0, int64(0), map[int]Spell{}
	for i, s := range spells {
		if s.Given {
			given++
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
			assert.True(t, s.Died, "it came after one that was killed at work")
		}
	}
	if recipe == "robust" {
		assert.LessOrEqual(t, died, kills, "deaths that were told")
		assert.Positive(t, died, "deaths that were told")
	}
	require.Greater(t, given, enough(kills), "holds")
	t.Logf("%s: %d holds, %d killed, %d told of a death", recipe, len(spells), kills, died)
}

// checkExclusion checks that never more than Limit was held.
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
