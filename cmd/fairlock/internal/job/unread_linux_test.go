package job

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// holding is a job that holds the lock "a" of a service in memory.
type holding struct {
	*job
	store *membackend.Store
	hold  *session.Hold
}

// newHolding acquires the lock for a shell script, which writes to stdout.
func newHolding(t *testing.T, stdout, stderr *os.File, script string, change func(*Options)) *holding {
	t.Helper()
	grace := time.Second
	o := Options{Name: "a", Command: []string{"sh", "-c", script}, Grace: &grace}
	if change != nil {
		change(&o)
	}
	target, err := (&connect.Flags{On: "mem://", Getenv: func(string) string { return "" }}).Target()
	require.NoError(t, err)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	j := &job{
		Options: o, std: Std{In: null, Out: stdout, Err: stderr}, clock: driver.SystemClock(), target: target,
		path: "/bin/sh", window: &window{}, yieldedTo: yieldedTo{}, sigs: supervise.Listen(),
	}
	j.rep, err = newReporter(stderr, o, j.clock)
	require.NoError(t, err)
	st := membackend.New()
	j.s, err = st.Open(t.Context(), &session.Options{Hooks: j.hooks()})
	require.NoError(t, err)
	h, err := mutex.New(j.s, "a").Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		j.close()
		_ = null.Close()
	})
	return &holding{j, st, h}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// fill fills a pipe, so that the next write blocks.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd := int(w.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	for {
		if _, err := unix.Write(fd, []byte(strings.Repeat("x", 4096))); err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			break
		}
	}
	require.NoError(t, unix.SetNonblock(fd, false))
}

// A terminal after ^S, or a pager, does not read what fairlock prints.
func TestAnEvictedCommandIsKilledAlthoughNothingReadsStderr(t *testing.T) {
	_, stderr := pipe(t)
	fill(t, stderr)
	stdout, stdoutIn := pipe(t)
	x := newHolding(t, stdoutIn, stderr, "trap '' TERM; echo ready; while :; do sleep 0.05; done", nil)
	ended := make(chan supervise.Result, 1)
	go func() { ended <- x.supervise(context.WithoutCancel(t.Context()), x.hold) }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	require.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))

	res := <-ended
	assert.True(t, res.Lost)
	assert.Equal(t, supervise.CodeLost, res.Code)
}
