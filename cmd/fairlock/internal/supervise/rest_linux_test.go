package supervise

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaves is a plan for a command that leaves a worker in its group, and exits with 3. The
// worker ends when a file is there, which the returned function writes. The worker ignores
// SIGINT, as all that a script starts in the background.
func leaves(t *testing.T) (p plan, finish func()) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "finish")
	p = sh(`(while test -d ` + dir + ` && ! test -e ` + file + `; do sleep 0.05; done) & echo $!; exit 3`)
	return p, func() { require.NoError(t, os.WriteFile(file, nil, 0o600)) }
}

func TestTheEndOfTheGroupIsTheEnd(t *testing.T) {
	t.Parallel()
	p, finish := leaves(t)
	s := start(t, p)
	worker := s.pids(t, 1)[0]
	s.err.WaitFor(t, "rest\n")
	assert.Equal(t, []int{worker}, alive(worker))

	finish()

	assert.Equal(t, 3, s.code(t))
	assert.Equal(t, "state held\nrest\nresult lost=false toolong=false err=<nil>\n", s.err.String())
}

// Children of the worker, and theirs, are the group's too.
func TestAGroupThatForksAndExitsIsNotOverlooked(t *testing.T) {
	t.Parallel()
	for range 3 {
		file := filepath.Join(t.TempDir(), "hops")
		s := start(t, sh(`n=0; hop() { n=$((n+1)); echo $n >`+file+`; [ $n -ge 60 ] || { hop & }; }; hop & exit 0`))

		require.Equal(t, 0, s.code(t))

		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "60\n", string(text))
	}
}

func TestWithLeaveADaemonInTheGroupLivesOn(t *testing.T) {
	t.Parallel()
	p := sh(`sleep 1000 >/dev/null 2>&1 & echo $!`)
	p.Leave = true
	s := start(t, p)
	pid := s.pids(t, 1)[0]
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })

	assert.Equal(t, 0, s.code(t))
	assert.Equal(t, []int{pid}, alive(pid))
}

func TestADaemonThatHasLeftTheGroupLivesOn(t *testing.T) {
	t.Parallel()
	s := start(t, sh(`setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' & wait`))
	pid := s.pids(t, 1)[0]
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })

	signalTo(t, s.Process.Pid, syscall.SIGTERM)

	assert.Equal(t, 143, s.code(t))
	assert.Equal(t, []int{pid}, alive(pid))
}

func TestTheRestOfTheGroupIsDeadAtTheDeadline(t *testing.T) {
	t.Parallel()
	p, _ := leaves(t)
	p.Left, p.Grace, p.Renewed = 10*time.Second, 3*time.Second, true
	s := start(t, p)
	worker := s.pids(t, 1)[0]
	s.err.WaitFor(t, "rest\n")

	s.fix(t)

	assert.Equal(t, 79, s.code(t))
	assert.Empty(t, alive(worker))
}

// The worker ignores SIGINT, and the signal ends it all the same.
func TestASignalAfterTheCommandEndsTheRest(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGQUIT: 131, syscall.SIGTERM: 3, syscall.SIGHUP: 3} {
		p, _ := leaves(t)
		p.Grace = time.Minute
		s := start(t, p)
		worker := s.pids(t, 1)[0]
		s.err.WaitFor(t, "rest\n")

		signalTo(t, s.Process.Pid, sig)

		assert.Equal(t, want, s.code(t), sig)
		assert.Empty(t, alive(worker), sig)
	}
}

// The command had the terminal. When it has ended, the script that called us gets it back.
func TestATypedInterruptEndsTheRestAndTheScript(t *testing.T) {
	t.Parallel()
	byShells(t, func(t *testing.T, script func(plan, string) (*super, *keyboard)) {
		p, _ := leaves(t)
		p.Grace = time.Minute
		s, k := script(p, `"$SUPER"; echo next`)
		k.screen.WaitFor(t, "rest\r\n")

		k.types(t, ctrlC)

		assert.Equal(t, 130, s.code(t))
		assert.NotContains(t, k.screen.String(), "next")
	})
}
