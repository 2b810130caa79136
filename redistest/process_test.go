package redistest_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/redistest"
)

func TestKilledServerKeepsWhatItsPersistenceKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		persistence               redistest.Persistence
		afterKill, afterStop, any bool
	}{
		"nothing":   {persistence: redistest.Nothing},
		"snapshots": {persistence: redistest.Snapshots, afterStop: true},
		"log":       {persistence: redistest.Log, afterKill: true, afterStop: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.New(t, &redistest.Options{Persistence: c.persistence})
			client, pid := s.Client(t), s.Pid()
			do(t, s, "SET", "kept", "7")

			s.Kill()
			s.Kill() // a second Kill does nothing

			assert.True(t, testserver.Refused(s.Addr()))
			require.Error(t, client.Do(hang.Context(t), client.B().Ping().Build()).Error())
			require.Error(t, s.Pause(), "there is no process to pause")
			require.Error(t, s.Stop(hang.Context(t)), "there is no process to stop")
			require.NoError(t, s.Restart(hang.Context(t)))
			assert.NotEqual(t, pid, s.Pid())
			assert.Equal(t, c.afterKill, exists(t, s, "kept"))
			require.NoError(t, client.Do(hang.Context(t), client.B().Ping().Build()).Error(), "the client connects again")

			do(t, s, "SET", "kept", "8")
			require.ErrorContains(t, s.Wipe(), "running")
			require.NoError(t, s.Stop(hang.Context(t)))
			assert.Contains(t, s.Log(), "bye bye")
			require.NoError(t, s.Restart(hang.Context(t)))
			assert.Equal(t, c.afterStop, exists(t, s, "kept"))

			s.Kill()
			require.NoError(t, s.Wipe())
			require.NoError(t, s.Restart(hang.Context(t)))
			assert.False(t, exists(t, s, "kept"))
		})
	}
}

func exists(t *testing.T, s *redistest.Server, key string) bool {
	t.Helper()
	n, err := s.Do(hang.Context(t), "EXISTS", key).AsInt64()
	require.NoError(t, err)
	return n == 1
}

func TestRestartStartsNothingAfterClose(t *testing.T) {
	s, err := redistest.Start(t.Context(), nil)
	require.NoError(t, err)
	restarted := make(chan struct{})
	go func() { // ends with Close
		defer close(restarted)
		_ = s.Restart(t.Context()) // it may have been the first
	}()

	require.NoError(t, s.Close())
	<-restarted

	assert.True(t, testserver.Refused(s.Addr()))
	require.ErrorContains(t, s.Restart(t.Context()), "closed")
	assert.True(t, testserver.Refused(s.Addr()))
	_, err = s.Replica(t.Context(), nil)
	require.Error(t, err)
}

func TestPausedServerKeepsRequestsWaiting(t *testing.T) {
	s := redistest.New(t, nil)
	client := s.Client(t)

	require.NoError(t, s.Pause())
	ended := make(chan error, 1)
	go func() { ended <- client.Do(hang.Context(t), client.B().Ping().Build()).Error() }() // ends after Resume
	require.Never(t, func() bool { return len(ended) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	require.ErrorIs(t, s.Do(hang.Ending(t, 50*time.Millisecond), "PING").Error(), context.DeadlineExceeded)
	_, err := s.Connect(hang.Ending(t, 50*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, s.Stop(hang.Ending(t, 50*time.Millisecond)), context.DeadlineExceeded, "a paused process does not receive SIGTERM")
	require.NoError(t, s.Pause(), "it is paused already")

	require.NoError(t, s.Resume())
	hang.Receive(t, ended, "the request stays") //nolint:errcheck // it may have been answered, or not
	hang.Until(t, func() bool { return testserver.Refused(s.Addr()) }, "the server does not end")
}

func TestCPUIsCounted(t *testing.T) {
	s := redistest.New(t, nil)
	before, err := s.CPU(hang.Context(t))
	require.NoError(t, err)

	do(t, s, "EVAL", "for i = 1, 3000000 do end return 1", "0")

	after, err := s.CPU(hang.Context(t))
	require.NoError(t, err)
	assert.Greater(t, after, before)
}

// orphanParent starts a server, and one with a replica that is paused.
func orphanParent() ([]testserver.Server, error) {
	ctx := context.Background()
	s, err := redistest.Start(ctx, &redistest.Options{Disk: true})
	if err != nil {
		return nil, err
	}
	replica, err := s.Replica(ctx, nil)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "linux" {
		err = replica.Pause()
	}
	return []testserver.Server{{Pid: s.Pid(), Addr: s.Addr()}, {Pid: replica.Pid(), Addr: replica.Addr()}}, err
}
