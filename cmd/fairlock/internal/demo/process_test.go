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

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
	proc "github.com/fairlock/fairlock/internal/process"
)

// partEnv makes the test binary a process that plays a part.
const partEnv = "FAIRLOCK_DEMO_TEST_PART"

func TestMain(m *testing.M) {
	if part := os.Getenv(partEnv); part != "" {
		play(part)
		return
	}
	goleak.VerifyTestMain(m)
}

// play is what a process of these tests does.
func play(part string) {
	_ = wire.NewWriter(os.Stdout).Write(wire.Event{Kind: wire.Ready})
	switch part {
	case "polite": // leaves when it is told to
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "stubborn": // does not
		time.Sleep(time.Hour)
	case "failing":
		fmt.Fprintln(os.Stderr, "first\nthe reason")
		os.Exit(3)
	}
}

// cast starts a process that plays a part, and returns when it does.
func cast(t *testing.T, part string) *process {
	t.Helper()
	t.Setenv(partEnv, part)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or leaving takes a second under -race
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

func TestDismissLetsThemLeaveAndKillsWhoDoesNot(t *testing.T) {
	polite, stubborn := cast(t, "polite"), cast(t, "stubborn")
	leaving, end := context.WithCancel(t.Context())
	go func() {
		<-polite.gone
		end()
	}()

	killed := dismiss(leaving, []*process{stubborn, polite})

	assert.Equal(t, 1, killed)
	require.NoError(t, polite.err)
	assert.True(t, proc.Killed(stubborn.err), "%v", stubborn.err)
}

func TestDismissReachesWhoIsStopped(t *testing.T) {
	p := cast(t, "polite")
	require.NoError(t, p.Pause())

	killed := dismiss(t.Context(), []*process{p})

	assert.Zero(t, killed)
	require.NoError(t, p.err)
}

func TestWhyAWorkerFailedIsTheLastThingThatItSaid(t *testing.T) {
	p := cast(t, "failing")
	<-p.gone

	require.EqualError(t, p.err, "exit status 3: the reason")
	assert.False(t, proc.Killed(p.err))
	require.Error(t, p.Signal(os.Kill), "it is gone: no signal goes to who has its pid now")
}

func TestWhatCannotBeStartedIsTold(t *testing.T) {
	_, err := spawn("/nonexistent/fairlock", "ada", nil, nil, nil)

	require.ErrorContains(t, err, "start worker ada: ")
}

func TestEventsComeBeforeTheEnd(t *testing.T) {
	t.Setenv(partEnv, "failing")
	exe, err := os.Executable()
	require.NoError(t, err)
	var mu sync.Mutex
	var told []string
	tell := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, s)
	}
	p, err := spawn(exe, "ada", nil,
		func(_ *process, e wire.Event) { tell(string(e.Kind)) }, func(*process) { tell("gone") })
	require.NoError(t, err)
	<-p.gone

	assert.Equal(t, "ready gone", strings.Join(told, " "))
}
