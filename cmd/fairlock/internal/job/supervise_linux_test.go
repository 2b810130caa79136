package job

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/hang"
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
		path: "/bin/sh", yieldedTo: yieldedTo{}, sigs: supervise.Listen(),
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
	go func() {
		res, _ := x.supervise(context.WithoutCancel(t.Context()), x.hold)
		ended <- res
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	require.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))

	res := <-ended
	assert.True(t, res.Lost)
	assert.Equal(t, supervise.CodeLost, res.Code)
}

// lossScript writes a program for --on-lost-exec.
func lossScript(t *testing.T, text string) func(*Options) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lost")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700)) //nolint:gosec // a program
	return func(o *Options) { o.Warn, o.OnLostExec = true, path }
}

func TestTheProgramOfOnLostExecIsWaitedForWhileTheCommandRuns(t *testing.T) {
	stderr, stderrIn := pipe(t)
	stdin, stdinIn := pipe(t)
	x := newHolding(t, stderrIn, stderrIn, "read x; exit 3", lossScript(t, "echo pid $$"))
	x.std.In, x.lostPath = stdin, x.OnLostExec
	ended := make(chan supervise.Result, 1)
	go func() {
		res, onLost := x.supervise(context.WithoutCancel(t.Context()), x.hold)
		onLost.wait()
		ended <- res
	}()
	require.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))
	pid := 0
	for lines := bufio.NewScanner(stderr); pid == 0; {
		require.True(t, lines.Scan())
		_, _ = fmt.Sscanf(lines.Text(), "pid %d", &pid) // other lines are messages
	}

	hang.Until(t, func() bool { return unix.Kill(pid, 0) == unix.ESRCH }, "a zombie")

	assert.Empty(t, ended)
	require.NoError(t, stdinIn.Close())
	assert.Equal(t, 3, (<-ended).Code)
}

func TestTheLockIsReleasedBeforeTheProgramOfOnLostExecEnds(t *testing.T) {
	_, stderr := pipe(t)
	file := filepath.Join(t.TempDir(), "file")
	x := newHolding(t, stderr, stderr, "while ! test -e "+file+".ready; do sleep 0.05; done",
		lossScript(t, ">"+file+".ready; while ! test -e "+file+"; do sleep 0.05; done"))
	x.lostPath = x.OnLostExec
	require.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))

	res, onLost := x.supervise(context.WithoutCancel(t.Context()), x.hold)
	require.Error(t, x.release(x.hold), "another client deleted it")

	select {
	case <-onLost.done:
		assert.Fail(t, "the program has ended")
	default:
	}
	assert.True(t, res.Lost)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	onLost.wait()
}

// The event of the loss can be late, and a command can end in the first milliseconds of a hold.
func TestALossThatOnlyTheReleaseFindsIsALoss(t *testing.T) {
	for _, c := range []struct {
		warn bool
		end  supervise.Result
		want supervise.Result
	}{
		{false, supervise.Result{}, supervise.Result{Code: exit.Lost, Lost: true}},
		{false, supervise.Result{Code: 3}, supervise.Result{Code: exit.Lost, Lost: true}},
		{true, supervise.Result{Code: 3}, supervise.Result{Code: 3, Lost: true}},
	} {
		stderr, stderrIn := pipe(t)
		x := newHolding(t, stderrIn, stderrIn, "", lossScript(t, "echo why: $FAIRLOCK_LOST"))
		x.Warn, x.lostPath = c.warn, x.OnLostExec
		require.True(t, x.store.Delete("a", recipetest.Refs(x.hold)[0].Key))

		x.finish(x.hold, &c.end, x.lossProgram(x.hold), false)

		require.Equal(t, c.want, c.end)
		const evicted = "its entry was evicted: another client deleted it\n"
		lines := bufio.NewReader(stderr)
		var text strings.Builder
		for range 2 {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			text.WriteString(line)
		}
		assert.Contains(t, text.String(), "fairlock: a: the lock is lost: "+evicted)
		assert.Regexp(t, `why: .*lock "a" \(token 1\) lost: `+evicted, text.String())
	}
}

// The command was dead before the deadline, so it overlapped with no other.
func TestADeadlineAfterTheCommandIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		h, err := mutex.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		j := &job{Options: Options{Name: "a"}, s: s, clock: driver.SystemClock(), rep: &reporter{name: "a", err: newOutbox(io.Discard)}}
		defer j.rep.err.close()
		c.Cut(fault.Requests)
		<-h.Context().Done()
		var res supervise.Result

		j.finish(h, &res, nil, false)

		assert.Equal(t, supervise.Result{}, res)
		c.Heal()
		require.NoError(t, s.Close())
	})
}

// Nor did one that ended long before the hold did.
func TestALossWhileMinHoldWaitsIsNoLoss(t *testing.T) {
	_, stderr := pipe(t)
	x := newHolding(t, stderr, stderr, "", nil)
	time.AfterFunc(2*eventTime, func() { x.store.Delete("a", recipetest.Refs(x.hold)[0].Key) })

	outlived := x.holdUntil(t.Context(), x.hold, x.clock.Now().Add(time.Hour))
	var res supervise.Result
	x.finish(x.hold, &res, nil, outlived)

	assert.Equal(t, supervise.Result{}, res)
}

func TestOnceCountsACommandThatDidAllOfItsWork(t *testing.T) {
	assert.True(t, succeeded(supervise.Result{}))
	for _, res := range []supervise.Result{{Code: 1}, {Lost: true}, {Signal: unix.SIGTERM}, {Hangup: true}} {
		assert.False(t, succeeded(res), "%+v", res)
	}
}

func TestALossWhileOnceReadsExits79(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		h, err := mutex.New(s, "a").Lock(t.Context())
		require.NoError(t, err)
		j := &job{Options: Options{Name: "a", Once: "k"}, s: s, target: &connect.Target{Address: &address.Address{}}}
		time.Sleep(time.Second) // by now it watches its entry
		c.Cut(fault.Requests)
		timer := time.AfterFunc(time.Second, func() { st.Delete("a", recipetest.Refs(h)[0].Key) })
		defer timer.Stop()

		_, err = j.doneBefore(t.Context(), h)

		assert.Equal(t, exit.Lost, codeOf(t, exit.Of(err)))
		c.Heal()
		require.NoError(t, s.Close())
	})
}

// The goroutine that receives signals may not have run when the lock is granted.
func TestASignalThatCameBeforeTheGrantCounts(t *testing.T) {
	_, stderr := pipe(t)
	x := newHolding(t, stderr, stderr, "", nil)
	for range 20 {
		require.NoError(t, unix.Kill(os.Getpid(), unix.SIGTERM))
		hang.Until(t, func() bool { return len(x.sigs.C()) > 0 }, "the signal does not come")

		_, stop := x.interruptible(t.Context())

		var i *interrupted
		require.ErrorAs(t, stop(), &i)
		assert.Equal(t, unix.SIGTERM, i.signal)
	}
}

func TestASignalThatEndsTheCommandEndsMinHold(t *testing.T) {
	for _, script := range []string{
		"kill -TERM $PPID; sleep 1000",                                       // we get it, and forward it
		"trap 'exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.05; done", // the command handles it
		"kill -INT $$", // typed
	} {
		_, stderr := pipe(t)
		conn := &connect.Flags{On: "mem://", Getenv: func(string) string { return "" }}

		err := Run(t.Context(), conn, Std{In: stderr, Out: stderr, Err: stderr}, Options{
			Name: "a", Command: []string{"/bin/sh", "-c", script}, MinHold: time.Hour,
		})
		if err != nil { // the code of the command; otherwise Run would not have returned
			require.ErrorContains(t, err, "exit 1")
		}
	}
}

func TestWhichResultsEndElect(t *testing.T) {
	for code, ends := range map[int]bool{0: false, 1: false, 129: true, 130: true, 131: true, 137: false, 143: false} {
		assert.Equal(t, ends, interrupts(supervise.Result{Code: code}), code)
	}
	assert.True(t, interrupts(supervise.Result{Signal: unix.SIGTERM}))
}

// A daemon that a command has left may take the lock when its parent is dead.
func TestAStackHasNoLocksOfProcessesThatDoNotWaitForUs(t *testing.T) {
	dead := exec.CommandContext(t.Context(), "true")
	require.NoError(t, dead.Run())
	child := exec.CommandContext(t.Context(), "cat")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	text, err := json.Marshal(stack{
		{Name: "parent", PID: os.Getppid(), NS: pidNamespace()},
		{Name: "dead", PID: dead.Process.Pid, NS: pidNamespace()},
		{Name: "child", PID: child.Process.Pid, NS: pidNamespace()},
		{Name: "outside", PID: dead.Process.Pid, NS: "pid:[of a parent]"},
	})
	require.NoError(t, err)

	s, err := readStack(string(text))

	require.NoError(t, err)
	assert.Equal(t, []string{"parent", "outside"}, s.names(""))
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
}
