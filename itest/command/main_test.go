//go:build linux

package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/progtest"
)

// atOnce is how many demonstrations run at the same time without -parallel: most of the
// time each of them waits for an expiry.
const atOnce = "4"

// binaryEnv is the variable with the path of the program that TestMain has built. The
// demonstration and the command of the cut-off trials are in the same folder.
const binaryEnv = "FAIRLOCK_ITEST_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(adopterEnv) != "" {
		adopt(os.Getenv(adopterEnv), os.Args[1:])
	}
	progtest.ResetSignals()
	dir, err := os.MkdirTemp("", "fairlock-itest-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary := filepath.Join(dir, "fairlock")
	const module = "github.com/fairlock/fairlock"
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", dir, module+"/cmd/fairlock", module+"/cmd/fairlock/demo", module+"/itest/command/beat").CombinedOutput()
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
	} else if err = errors.Join(os.Setenv(binaryEnv, binary), flag.Set("test.parallel", atOnce)); err == nil {
		code = m.Run()
	}
	if err := errors.Join(sharedEtcd.Close(), sharedZooKeeper.Close(), sharedPostgres.Close(), sharedRedis.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// demo returns a command that runs the demonstration.
func demo(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(t, args...)
	cmd.Path = filepath.Join(filepath.Dir(cmd.Path), "demo")
	return cmd
}

// program returns a command that runs the built program.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv(binaryEnv), args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	return cmd
}

// code returns the exit code of a program, as a shell does.
func code(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	var e *exec.ExitError
	require.ErrorAs(t, err, &e)
	return progtest.Code(e.ProcessState)
}

// children returns the pids of the processes that a process has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process is gone
		}
		// The name can contain any characters, so the fields are those after the last ")".
		rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(rest) > 1 && rest[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			all = append(all, child)
		}
	}
	return all
}

// alive reports whether at least one of the processes exists.
func alive(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			return true
		}
	}
	return false
}
