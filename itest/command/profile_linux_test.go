package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
)

// profiled returns the profile in a file, and its values by lock.
func profiled(t *testing.T, file string) (p *profile.Profile, waiters, delay map[string]int64) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	p, err = profile.Parse(f)
	require.NoError(t, err)
	waiters, delay = map[string]int64{}, map[string]int64{}
	for _, s := range p.Sample {
		waiters[s.Label["lock"][0]] += s.Value[0]
		delay[s.Label["lock"][0]] += s.Value[1]
	}
	return p, waiters, delay
}

func TestAProfileShowsTheWaitingTimeOfEachLock(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		a, b := openSession(t, url, "batch"), openSession(t, url, "web")
		for name, waiters := range map[string]int{"jobs/busy": 3, "jobs/calm": 1, "other": 1} {
			holdOf(t, a, name)
			for i := range waiters {
				waiting(t, a, name, i+2, func(ctx context.Context) { _, _ = mutex.New(b, name).Lock(ctx) })
			}
		}
		file := filepath.Join(t.TempDir(), "locks.pb.gz")

		got := execute(t, url, "profile", "jobs/", "--for", "3s", "--interval", "50ms", "-O", file)

		require.Equal(t, 0, got.code, got.stderr)
		assert.Regexp(t, `^\d+ reads found \d+ waiters of 2 locks: \S+/locks.pb.gz\n$`, got.stderr)
		p, waiters, delay := profiled(t, file)
		reads := waiters["jobs/calm"] // one waiter in each read
		require.Positive(t, reads)
		assert.Equal(t, map[string]int64{"jobs/calm": reads, "jobs/busy": 3 * reads}, waiters)
		assert.Equal(t, map[string]int64{"jobs/calm": p.DurationNanos, "jobs/busy": 3 * p.DurationNanos}, delay)
		for _, s := range p.Sample {
			var stack []string
			for _, l := range s.Location {
				kind, _, _ := strings.Cut(l.Line[0].Function.Name, " ")
				stack = append(stack, kind)
			}
			assert.Equal(t, []string{"waiter", "holder", "lock"}, stack, "the leaf first")
			assert.Equal(t, []string{"web"}, s.Label["label"])
		}

		cmd := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-cum", "-sample_index=waiters", file)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		top, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", top)
		assert.Regexp(t, ` 75.00% +lock jobs/busy\n`, string(top))
		assert.Regexp(t, ` 25.00% +lock jobs/calm\n`, string(top))
		assert.Regexp(t, ` 100% +waiter \S+ \(web\)\n`, string(top))
	})
}

func TestAnInterruptedProfileIsWritten(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		a := openSession(t, url, "")
		holdOf(t, a, "x")
		waiting(t, a, "x", 2, func(ctx context.Context) { _, _ = mutex.New(a, "x").Lock(ctx) })
		file := filepath.Join(t.TempDir(), "locks.pb.gz")
		x := atTerminal(t, url, "profile", "--for", "1h", "--interval", "10ms", "-O", file)
		x.screen.WaitFor(t, `reading the queues for 1h0m0s; .C ends it, [1-9]\d*s`) // it has read the queues by then

		x.types(t, "\x03")

		assert.Equal(t, 130, x.code(t))
		x.screen.WaitFor(t, `\d+ reads? found \d+ waiters? of 1 lock: `)
		_, waiters, _ := profiled(t, file)
		assert.Positive(t, waiters["x"])
	})
}
