package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/session/driver"
)

// planEnv makes the test binary a supervisor; its value is the plan.
const planEnv = "FAIRLOCK_SUPERVISE_TEST"

// becomeRoot makes the test binary a set-uid program that has become root for good.
const becomeRoot = "become-root"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "guard":
		if err := Guard(os.Stdin); err != nil {
			os.Exit(1)
		}
	case len(os.Args) == 2 && os.Args[1] == becomeRoot:
		if err := syscall.Setuid(0); err != nil {
			os.Exit(1)
		}
		fmt.Println(os.Getpid())
		_ = syscall.Pause() // until a signal
	case os.Getenv(planEnv) != "":
		os.Exit(supervise(os.Getenv(planEnv)))
	default:
		progtest.ResetSignals()
		goleak.VerifyTestMain(m)
	}
}

// plan is a Spec that is passed to another process as JSON.
type plan struct {
	Args       []string
	Left       time.Duration // from the start
	Gone       time.Duration // from the start; 0 is never
	Renewed    bool          // Left and Gone begin when the test calls super.fix; until then Left is renewed while it is not over
	Grace      time.Duration
	MaxRun     time.Duration
	KeepOn     bool
	Foreground bool
	Unguarded  bool
	Leave      bool
}

// supervise is the main function of a supervisor. It writes each state to stderr, as a
// line.
func supervise(text string) int {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	sigs := Listen()
	defer sigs.Close()
	left, gone := p.times()
	spec := Spec{
		Path: p.Args[0], Args: p.Args, Env: withoutPlan(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Left: left, Lost: gone,
		Grace: p.Grace, MaxRun: p.MaxRun, KeepOn: p.KeepOn, Foreground: p.Foreground, Signals: sigs,
		Leave:   p.Leave,
		Report:  func(s State) { fmt.Fprintf(os.Stderr, "state %s\n", s) },
		Rest:    func() { fmt.Fprintln(os.Stderr, "rest") },
		Refused: func(pid int) { fmt.Fprintf(os.Stderr, "refused %d\n", pid) },
	}
	if !p.Unguarded {
		spec.Guard = []string{"fairlock", "guard"}
	}
	res := Run(context.Background(), spec)
	fmt.Fprintf(os.Stderr, "result lost=%t toolong=%t err=%v\n", res.Lost, res.TooLong, res.Err)
	if res.By != 0 {
		Die(res.By, res.Typed)
	}
	return res.Code
}

// times returns Left and Lost of a Spec.
func (p plan) times() (left func() time.Duration, gone chan struct{}) {
	clock := driver.SystemClock()
	var mu sync.Mutex
	renewed, end := p.Renewed, clock.Now().Add(p.Left)
	left = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now := clock.Now()
		if renewed && now < end {
			end = now.Add(p.Left)
		}
		return max(0, end.Sub(now))
	}
	gone = make(chan struct{})
	begin := func() {
		left()
		mu.Lock()
		defer mu.Unlock()
		renewed = false
		if p.Gone > 0 {
			time.AfterFunc(p.Gone, func() { close(gone) })
		}
	}
	if !p.Renewed {
		begin()
		return left, gone
	}
	syscall.CloseOnExec(fixFD)
	go func() { // ends with the test's side of the pipe
		_, _ = io.Copy(io.Discard, os.NewFile(fixFD, "fix"))
		begin()
	}()
	return left, gone
}

// fixFD is the descriptor of the pipe by which super.fix begins Left and Gone.
const fixFD = 3

func withoutPlan() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, planEnv+"=") {
			env = append(env, e)
		}
	}
	return env
}

// sh is a plan for a shell script, with an hour to run.
func sh(script string) plan {
	return plan{Args: []string{"/bin/sh", "-c", script}, Left: time.Hour}
}

// super is a supervisor under test.
type super struct {
	*exec.Cmd
	out, err progtest.Buffer
	began    time.Time     // when it was started, or fix was called
	pipe     *os.File      // see plan.Renewed
	done     chan struct{} // closed when it has ended
}

// start starts a supervisor.
func start(t *testing.T, p plan) *super {
	t.Helper()
	s := prepare(t, p)
	s.begin(t)
	return s
}

func prepare(t *testing.T, p plan) *super {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	s := &super{Cmd: exec.CommandContext(t.Context(), exe), done: make(chan struct{})}
	s.Env = append(os.Environ(), planEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	s.Stdout, s.Stderr = &s.out, &s.err
	s.WaitDelay = time.Second // a process that the command leaves has our pipes
	if p.Renewed {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = r.Close(), w.Close() })
		s.ExtraFiles, s.pipe = []*os.File{r}, w
	}
	return s
}

func (s *super) begin(t *testing.T) {
	t.Helper()
	s.began = time.Now()
	require.NoError(t, s.Start())
	go func() { // ends with the process, which the cleanup kills
		defer close(s.done)
		_ = s.Wait() // the error is the exit code
	}()
	t.Cleanup(func() {
		_ = s.Process.Kill()
		<-s.done
	})
}

// fix fixes the deadline of a Renewed plan. Whatever the command needed to get so far took as
// long as it took.
func (s *super) fix(t *testing.T) {
	t.Helper()
	s.began = time.Now()
	require.NoError(t, s.pipe.Close())
}

// stop stops the supervisor, and returns a time from which on it does nothing.
func (s *super) stop(t *testing.T) time.Time {
	t.Helper()
	signalTo(t, s.Process.Pid, syscall.SIGSTOP)
	eventually(t, "a stopped process", func() bool { return children(t, os.Getpid())[s.Process.Pid] == "T" })
	return time.Now()
}

// code waits for the end and returns the exit code, as a shell does.
func (s *super) code(t *testing.T) int {
	t.Helper()
	hang.Receive(t, s.done, "the supervisor does not end: stdout: %s\nstderr: %s", &s.out, &s.err)
	return progtest.Code(s.ProcessState)
}

// pids waits for n numbers on stdout, and returns them.
func (s *super) pids(t *testing.T, n int) []int {
	t.Helper()
	s.out.WaitFor(t, fmt.Sprintf(`(?s)(\d+\s+){%d}`, n))
	var all []int
	for _, f := range strings.Fields(s.out.String())[:n] {
		pid, err := strconv.Atoi(f)
		require.NoError(t, err)
		all = append(all, pid)
	}
	return all
}

// alive returns the processes of pids that live; zombies do not.
func alive(pids ...int) []int {
	var all []int
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		if f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]); f[0][0] != 'Z' {
			all = append(all, pid)
		}
	}
	return all
}

// children returns the children of a process, with their states.
func children(t *testing.T, pid int) map[int]string {
	t.Helper()
	all := map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if f[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			all[child] = f[0]
		}
	}
	return all
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	hang.Until(t, ok, "%s", what)
}

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, sig))
}
