//go:build linux

package command

import (
	"bytes"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
)

// demos returns the services that the demonstration runs on. The value is the number of
// processes that it starts in addition to the five workers.
func demos() map[string]int { return map[string]int{"etcd": 0, "zk": 1, "postgres": 1, "redis": 1} }

// promises returns the lines of the summary of a demonstration without violations.
func promises() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(?m)^all as promised, in \d+\.\d s`),
		regexp.MustCompile(`(?m)^  grants +[1-9]\d+  `),
		regexp.MustCompile(`(?m)^  order violations +0  `),
		regexp.MustCompile(`(?m)^  overlaps +0  `),
		regexp.MustCompile(`(?m)^  refused writes +[1-9]  fenced: dan came late, with token \d+`),
		regexp.MustCompile(`(?m)^  lost updates +0  `),
		regexp.MustCompile(`(?m)^  left behind +0  `),
		regexp.MustCompile(`(?m)^  hand-off +p50 [0-9.]+ ms, p99 [0-9.]+ ms, Unlock to next hold, \d+ times`),
		regexp.MustCompile(`(?m)^  killed +next hold after \d\.\d s: (ada|bob|cleo|eve) \(pid \d+\)`),
		regexp.MustCompile(`(?m)^  stopped +next hold after \d\.\d s: dan \(pid \d+\), woken after \d+\.\d s`),
	}
}

func TestWithoutATerminalTheDemoPrintsPlainLines(t *testing.T) {
	inTurn(t, plainLines)
}

func plainLines(t *testing.T, on string) {
	var stdout, stderr progtest.Buffer
	cmd := demo(t, "--on", on)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	err := cmd.Run()
	text := stdout.String()

	require.Equal(t, 0, code(t, err), "%s%s", text, stderr.String())
	assert.Empty(t, stderr.String())
	for _, line := range promises() {
		assert.Regexp(t, line, text)
	}
	assert.NotContains(t, text, "\x1b", "escape sequences")
	assert.Regexp(t, `kill -9 \w+, which holds`, text)
	assert.Regexp(t, `kill -STOP dan, which holds`, text)
	assert.Regexp(t, `kill -CONT dan: it writes with token \d+\. REFUSED: the ledger saw \d+`, text)
	lines := bytes.Count([]byte(text), []byte("\n"))
	assert.Less(t, lines, 200, "the output is short enough to read")
	wide := map[string]int{"redis": 80 + 2*12}[on] // its tokens have 16 digits, and two can be side by side
	for line := range bytes.Lines([]byte(text)) {
		assert.LessOrEqual(t, len(line), max(80, wide)+1, "%s", line)
	}
}

func TestAnInterruptEndsTheDemoAtOnce(t *testing.T) {
	inTurn(t, func(t *testing.T, on string) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(sig.String(), func(t *testing.T) { interrupt(t, on, sig) })
		}
	})
}

func interrupt(t *testing.T, on string, sig syscall.Signal) {
	t.Helper()
	cmd := demo(t, "--on", on)
	var stdout, stderr progtest.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	stdout.WaitFor(t, "Five processes take turns")
	all := children(t, cmd.Process.Pid)
	require.Len(t, all, 5+demos()[on])

	require.NoError(t, cmd.Process.Signal(sig))

	assert.Equal(t, 128+int(sig), code(t, cmd.Wait()), stderr.String())
	assert.False(t, alive(all), "a process survived")
	assert.Equal(t, "demo: interrupted\n", stderr.String())
}

func TestNoProcessSurvivesADemoThatIsKilled(t *testing.T) {
	inTurn(t, func(t *testing.T, on string) {
		cmd := demo(t, "--on", on)
		var stdout progtest.Buffer
		cmd.Stdout = &stdout
		require.NoError(t, cmd.Start())
		stdout.WaitFor(t, "kill -STOP dan") // a stopped worker cannot notice that its stdin ends
		all := children(t, cmd.Process.Pid)
		require.Len(t, all, 5+demos()[on])

		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // the error is "killed"

		hang.Until(t, func() bool { return !alive(all) }, "a process survived")
	})
}

func TestWithoutJavaADemoOnZooKeeperReportsWhatToInstall(t *testing.T) {
	t.Parallel()
	cmd := demo(t, "--on", "zk")
	cmd.Env = append(cmd.Env, "PATH=", "JAVA_HOME=")
	var stdout, stderr progtest.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr

	err := cmd.Run()

	assert.Equal(t, 70, code(t, err))
	assert.Equal(t, "demo: start ZooKeeper: zktest: no java in PATH: install a Java runtime "+
		"(Debian: apt-get install default-jre-headless) or set JAVA_HOME\n", stderr.String())
	assert.Empty(t, stdout.String())
}
