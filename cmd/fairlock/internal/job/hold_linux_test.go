package job

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// codeOf returns the exit code of an error.
func codeOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return exit.OK
	}
	var e *exit.Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

// returns is what f returns, which must not wait for ever.
func returns(t *testing.T, f func() error) error {
	t.Helper()
	returned := make(chan error, 1)
	go func() { returned <- f() }() // what it waits for is closed when the test has failed
	return hang.Receive(t, returned, "it does not return")
}

// For example, the script that reads the grant is stopped, or has ended and left the pipe to
// another process.
func TestAHoldEndsAlthoughNothingReadsStdout(t *testing.T) {
	_, stderr := pipe(t)
	_, stdout := pipe(t)
	fill(t, stdout)
	for name, end := range map[string]func(x *holding, stdin *os.File){
		"a signal":         func(*holding, *os.File) { assert.NoError(t, unix.Kill(os.Getpid(), unix.SIGTERM)) },
		"the end of stdin": func(_ *holding, stdin *os.File) { assert.NoError(t, stdin.Close()) },
		"a loss": func(x *holding, _ *os.File) {
			assert.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))
		},
	} {
		x := newHolding(t, stdout, stderr, "", nil)
		stdin, stdinIn := pipe(t)
		x.std.In = stdin
		time.AfterFunc(100*time.Millisecond, func() { end(x, stdinIn) })

		err := returns(t, func() error { return x.keep(x.hold, schema.NewGrant()) })

		want := exit.OK
		if name == "a loss" {
			want = exit.Lost
		}
		assert.Equal(t, want, codeOf(t, err), name)
	}
}

// ended returns a pipe whose writer has ended.
func ended(t *testing.T) *os.File {
	t.Helper()
	r, w := pipe(t)
	require.NoError(t, w.Close())
	return r
}

// Services, containers and jobs in the background have /dev/null. Nothing ends there.
func TestAStdinThatNobodyHasOpenEndsNoHold(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	unreadable, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // as nohup does it
	require.NoError(t, err)
	closed, err := os.Open(os.DevNull)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	t.Cleanup(func() { _ = errors.Join(file.Close(), null.Close(), unreadable.Close()) })
	r, _ := pipe(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	socket := os.NewFile(uintptr(pair[0]), "socket")
	t.Cleanup(func() { _ = errors.Join(socket.Close(), unix.Close(pair[1])) })

	for _, f := range []*os.File{file, null, unreadable, closed} {
		assert.False(t, canEnd(f), f.Name())
	}
	for _, f := range []*os.File{r, socket} {
		assert.True(t, canEnd(f), f.Name())
	}
}

func TestAGrantThatCannotBeWrittenIsAnError(t *testing.T) {
	_, stderr := pipe(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	x := newHolding(t, full, stderr, "", nil)
	x.std.In = ended(t)

	err = x.keep(x.hold, schema.NewGrant())

	assert.Equal(t, exit.Software, codeOf(t, err))
	assert.ErrorIs(t, err, unix.ENOSPC)
}

// The event of the loss can be late, and a hold that has just begun does not wait for one.
func TestALossThatOnlyTheReleaseFindsExits79(t *testing.T) {
	_, stderr := pipe(t)
	_, stdout := pipe(t)
	x := newHolding(t, stdout, stderr, "", nil)
	x.std.In = ended(t)
	require.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))

	err := x.keep(x.hold, schema.NewGrant())

	assert.Equal(t, exit.Lost, codeOf(t, err))
}

func TestObserveEndsAlthoughNothingReadsStdout(t *testing.T) {
	_, stderr := pipe(t)
	_, stdout := pipe(t)
	fill(t, stdout)
	conn := &connect.Flags{On: "mem://", Getenv: func(string) string { return "" }}
	timer := time.AfterFunc(500*time.Millisecond, func() { assert.NoError(t, unix.Kill(os.Getpid(), unix.SIGTERM)) })
	defer timer.Stop()

	err := returns(t, func() error {
		return Observe(t.Context(), conn, Std{In: stderr, Out: stdout, Err: stderr}, Options{Name: "a"}, false)
	})

	assert.Equal(t, supervise.CodeSignal+int(unix.SIGTERM), codeOf(t, err))
}
