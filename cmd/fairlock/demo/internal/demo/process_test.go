//go:build unix

package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	proc "github.com/fairlock/fairlock/internal/process"
)

// partEnv is the environment variable that makes the test binary a test process.
const partEnv = "FAIRLOCK_DEMO_TEST_PART"

func TestMain(m *testing.M) {
	if part := os.Getenv(partEnv); part != "" {
		runPart(part)
		return
	}
	goleak.VerifyTestMain(m)
}

// runPart is the main function of a test process.
func runPart(part string) {
	_ = wire.NewWriter(os.Stdout).Write(wire.Event{Kind: wire.Ready})
	switch part {
	case "polite": // leaves when its stdin ends
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn": // does not leave
		time.Sleep(time.Hour)
	case "failing":
		fmt.Fprintln(os.Stderr, "first\nthe reason")
		os.Exit(3)
	}
}

// startPart starts a test process, and returns when it has sent its first event.
func startPart(t *testing.T, part string) *process {
	t.Helper()
	t.Setenv(partEnv, part)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise an exit takes a second under -race
	exe, err := os.Executable()
	require.NoError(t, err)
	ready := make(chan struct{})
	p, err := spawn(exe, part, nil, func(*process, wire.Event) { close(ready) }, func(*process) {})
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	t.Cleanup(func() { dismiss(ended, []*process{p}) })
	<-ready
	return p
}

func TestDismissKillsOnlyWorkersThatDoNotLeave(t *testing.T) {
	polite, stubborn := startPart(t, "polite"), startPart(t, "stubborn")
	leaving, end := context.WithCancel(t.Context())
	go func() {
		<-polite.done
		end()
	}()

	killed := dismiss(leaving, []*process{stubborn, polite})

	assert.Equal(t, 1, killed)
	require.NoError(t, polite.err)
	assert.True(t, proc.Killed(stubborn.err), "%v", stubborn.err)
}

func TestDismissEndsAStoppedWorker(t *testing.T) {
	p := startPart(t, "polite")
	require.NoError(t, p.Pause())

	killed := dismiss(t.Context(), []*process{p})

	assert.Zero(t, killed)
	require.NoError(t, p.err)
}

func TestErrorOfAWorkerEndsWithItsLastLineOfStderr(t *testing.T) {
	p := startPart(t, "failing")
	<-p.done

	require.EqualError(t, p.err, "exit status 3: the reason")
	assert.False(t, proc.Killed(p.err))
	require.Error(t, p.Signal(os.Kill), "it has ended: its pid may belong to another process")
}

func TestSpawnReportsAProgramThatDoesNotExist(t *testing.T) {
	_, err := spawn("/nonexistent/fairlock", "ada", nil, nil, nil)

	require.ErrorContains(t, err, "start worker ada: ")
}

func TestEventsAreReportedBeforeTheExit(t *testing.T) {
	t.Setenv(partEnv, "failing")
	exe, err := os.Executable()
	require.NoError(t, err)
	var mu sync.Mutex
	var got []string
	record := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, s)
	}
	p, err := spawn(exe, "ada", nil,
		func(_ *process, e wire.Event) { record(string(e.Kind)) }, func(*process) { record("exited") })
	require.NoError(t, err)
	<-p.done

	assert.Equal(t, "ready exited", strings.Join(got, " "))
}
