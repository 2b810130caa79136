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

// large is what a soak of some minutes leaves: about 50 000 operations.
func large(harm float64) shape { return shape{clients: 20, attempts: 17_500, harm: harm} }

func TestLargeHistoriesAreDecided(t *testing.T) {
	for _, line := range lines() {
		t.Run(line.Name, func(t *testing.T) {
			r := play(line, 1, large(0.05))
			from := time.Now()

			found := history.Model([]history.Line{line}, r.attempts, time.Minute)

			t.Logf("%d attempts in %s", len(r.attempts), time.Since(from).Round(time.Millisecond))
			assert.Empty(t, found)

			require.True(t, zombie(rand.New(rand.NewPCG(1, 1)), &r))
			from = time.Now()

			found = history.Model([]history.Line{line}, r.attempts, time.Minute)

			t.Logf("one that believes to the end: %s", time.Since(from).Round(time.Millisecond))
			require.NotEmpty(t, found)
			assert.Equal(t, "S1", found[0].Property)
		})
	}
}

func BenchmarkModel(b *testing.B) {
	for _, line := range lines() {
		b.Run(line.Name, func(b *testing.B) {
			r := play(line, 1, large(0.05))
			b.ReportAllocs()
			for b.Loop() {
				history.Model([]history.Line{line}, r.attempts, time.Minute)
			}
		})
	}
}

func BenchmarkSweep(b *testing.B) {
	r := play(lines()[0], 1, large(0.05))
	for b.Loop() {
		history.Sweep([]history.Line{r.line}, r.attempts, bound, r.until)
	}
}

func BenchmarkReplay(b *testing.B) {
	r := play(lines()[0], 1, large(0.05))
	for b.Loop() {
		history.Replay(r.line, r.changes, r.attempts, grace)
	}
}

// A history that could not be decided in time counts as a violation.
func TestUndecidedIsAViolation(t *testing.T) {
	r := play(lines()[0], 1, shape{clients: 8, attempts: 400})

	found := history.Model([]history.Line{r.line}, r.attempts, time.Nanosecond)

	require.NotEmpty(t, found)
	for _, v := range found {
		assert.Equal(t, "model", v.Property)
	}
}

func TestUnknownLineIsAViolation(t *testing.T) {
	r := play(lines()[0], 1, shape{clients: 2, attempts: 4})

	found := history.Model(nil, r.attempts, time.Minute)

	require.Len(t, found, 1)
	assert.Equal(t, history.Violation{Property: "model", Oracle: "model", Line: "mutex", Text: "nobody said what this line is for"}, found[0])
}

// Of many holds the text names those two that exclude each other.
func TestViolationNamesTheFew(t *testing.T) {
	mutex := lines()[0]
	r := play(mutex, 3, shape{clients: 8, attempts: 300})
	require.True(t, squeeze(rand.New(rand.NewPCG(3, 1)), &r))

	found := history.Model([]history.Line{mutex}, r.attempts, time.Minute)

	require.Len(t, found, 1)
	assert.Regexp(t, `^no order explains what was seen: client \d[^;]*; client \d[^;]*$`, found[0].Text)
}

// A lock without tokens, and with entries that nobody knows, excludes all the same.
func TestExclusionWithoutTokens(t *testing.T) {
	const ms = millisecond
	mutex := []history.Line{{Name: "m", Recipe: history.Mutex}}
	first := history.Attempt{Line: "m", Asked: 1 * ms, Got: 2 * ms, Held: 9 * ms, Back: 10 * ms, Done: 11 * ms, Outcome: history.Given}
	next := history.Attempt{Line: "m", Client: 1, Asked: 3 * ms, Got: 11 * ms, Held: 12 * ms}
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

func TestPictureOfWhatIsRefused(t *testing.T) {
	folder := t.TempDir()
	line := history.Line{Name: "orders/settle", Recipe: history.Mutex}
	r := play(line, 3, shape{clients: 8, attempts: 300})

	path, err := history.Picture(folder, line, r.attempts, time.Minute)

	require.NoError(t, err)
	assert.Empty(t, path, "nothing is wrong")

	require.True(t, squeeze(rand.New(rand.NewPCG(3, 1)), &r))

	path, err = history.Picture(folder, line, r.attempts, time.Minute)

	require.NoError(t, err)
	assert.Equal(t, filepath.Join(folder, "orders_settle.html"), path)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(page), "not in order")
	assert.Contains(t, string(page), "granted")

	_, err = history.Picture(filepath.Join(folder, "nowhere"), line, r.attempts, time.Minute)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
