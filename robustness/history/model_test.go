package history_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
)

// large has the size of a soak of some minutes: about 50 000 operations.
func large(faultRate float64) options {
	return options{clients: 20, attempts: 17_500, faultRate: faultRate}
}

func TestLargeHistoriesAreDecided(t *testing.T) {
	for _, queue := range queues() {
		t.Run(queue.Name, func(t *testing.T) {
			r := simulate(queue, 1, large(0.05))
			from := time.Now()

			found := history.Model([]history.Queue{queue}, r.attempts, time.Minute)

			t.Logf("%d attempts in %s", len(r.attempts), time.Since(from).Round(time.Millisecond))
			assert.Empty(t, found)

			require.True(t, heldForever(rand.New(rand.NewPCG(1, 1)), &r))
			from = time.Now()

			found = history.Model([]history.Queue{queue}, r.attempts, time.Minute)

			t.Logf("with a hold that reports \"held\" to the end: %s", time.Since(from).Round(time.Millisecond))
			require.NotEmpty(t, found)
			assert.Equal(t, "S1", found[0].Property)
		})
	}
}

func BenchmarkModel(b *testing.B) {
	for _, queue := range queues() {
		b.Run(queue.Name, func(b *testing.B) {
			r := simulate(queue, 1, large(0.05))
			b.ReportAllocs()
			for b.Loop() {
				history.Model([]history.Queue{queue}, r.attempts, time.Minute)
			}
		})
	}
}

func BenchmarkSweep(b *testing.B) {
	r := simulate(queues()[0], 1, large(0.05))
	for b.Loop() {
		history.Sweep([]history.Queue{r.queue}, r.attempts, bound, r.until)
	}
}

func BenchmarkReplay(b *testing.B) {
	r := simulate(queues()[0], 1, large(0.05))
	for b.Loop() {
		history.Replay(r.queue, r.changes, r.attempts, always)
	}
}

// A history that is not decided in time counts as a violation.
func TestUndecidedIsAViolation(t *testing.T) {
	r := simulate(queues()[0], 1, options{clients: 8, attempts: 400})

	found := history.Model([]history.Queue{r.queue}, r.attempts, time.Nanosecond)

	require.NotEmpty(t, found)
	for _, v := range found {
		assert.Equal(t, "model", v.Property)
	}
}

func TestUnknownQueueIsAViolation(t *testing.T) {
	r := simulate(queues()[0], 1, options{clients: 2, attempts: 4})

	found := history.Model(nil, r.attempts, time.Minute)

	require.Len(t, found, 1)
	assert.Equal(t, history.Violation{Property: "model", Oracle: "model", Queue: "mutex", Text: "the recipe of this queue is unknown"}, found[0])
}

// The text names only the two holds, of many, that exclude each other.
func TestViolationNamesOnlyTheConflictingHolds(t *testing.T) {
	mutex := queues()[0]
	r := simulate(mutex, 3, options{clients: 8, attempts: 300})
	require.True(t, grantEarly(rand.New(rand.NewPCG(3, 1)), &r))

	found := history.Model([]history.Queue{mutex}, r.attempts, time.Minute)

	require.Len(t, found, 1)
	assert.Regexp(t, `^no order explains what was seen: client \d[^;]*; client \d[^;]*$`, found[0].Text)
}

// Exclusion is judged also if neither tokens nor places are known.
func TestExclusionWithoutTokens(t *testing.T) {
	const ms = millisecond
	mutex := []history.Queue{{Name: "m", Recipe: history.Mutex}}
	first := history.Attempt{Queue: "m", Asked: 1 * ms, Got: 2 * ms, Held: 9 * ms, Back: 10 * ms, Done: 11 * ms, Outcome: history.Released}
	next := history.Attempt{Queue: "m", Client: 1, Asked: 3 * ms, Got: 11 * ms, Held: 12 * ms}
	beside := next
	beside.Got = 8 * ms

	for oracle, found := range map[string][]history.Violation{
		"model": history.Model(mutex, []history.Attempt{next, first}, time.Minute),
		"sweep": violations(history.Sweep(mutex, []history.Attempt{next, first}, bound, 0)),
	} {
		assert.Empty(t, found, oracle)
	}
	for oracle, found := range map[string][]history.Violation{
		"model": history.Model(mutex, []history.Attempt{beside, first}, time.Minute),
		"sweep": violations(history.Sweep(mutex, []history.Attempt{beside, first}, bound, 0)),
	} {
		if assert.Len(t, found, 1, oracle) {
			assert.Equal(t, "S1", found[0].Property, oracle)
		}
	}
}

func violations(found []history.Violation, _ history.Figures) []history.Violation { return found }

func TestPictureOfRefusedHistory(t *testing.T) {
	folder := t.TempDir()
	queue := history.Queue{Name: "orders/settle", Recipe: history.Mutex}
	r := simulate(queue, 3, options{clients: 8, attempts: 300})

	path, err := history.Picture(folder, queue, r.attempts, time.Minute)

	require.NoError(t, err)
	assert.Empty(t, path, "a correct history has no picture")

	require.True(t, grantEarly(rand.New(rand.NewPCG(3, 1)), &r))

	path, err = history.Picture(folder, queue, r.attempts, time.Minute)

	require.NoError(t, err)
	assert.Equal(t, filepath.Join(folder, "orders_settle.html"), path)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(page), "not in order")
	assert.Contains(t, string(page), "granted")

	_, err = history.Picture(filepath.Join(folder, "nowhere"), queue, r.attempts, time.Minute)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
