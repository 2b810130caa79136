package mysqltest_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/mysqltest"
)

func TestKilledServerKeepsWhatWasCommitted(t *testing.T) {
	s := mysqltest.New(t, nil)
	db, pid := connect(t, s), s.Pid()
	execute(t, db, "create table kept (id int)")
	execute(t, db, "insert into kept values (7)")

	s.Kill()
	s.Kill() // a second Kill does nothing

	assert.True(t, testserver.Refused(s.Addr()))
	require.Error(t, db.PingContext(hang.Context(t)))
	require.Error(t, s.Pause(), "there is no process to pause")
	require.Error(t, s.Resume(), "there is no process to resume")
	require.Error(t, s.Stop(hang.Context(t)), "there is no process to stop")

	require.NoError(t, s.Restart(hang.Context(t)))
	assert.NotEqual(t, pid, s.Pid())
	assert.Equal(t, 7, value[int](t, db, "select id from kept"))
	assert.Contains(t, s.Log(), "crash recovery")
}

func TestStoppedServerKeepsItsData(t *testing.T) {
	s := mysqltest.New(t, nil)
	db := connect(t, s)
	execute(t, db, "create table kept (id int)")

	require.NoError(t, s.Stop(hang.Context(t)))
	assert.True(t, testserver.Refused(s.Addr()))
	assert.Contains(t, s.Log(), "Shutdown complete")

	require.NoError(t, s.Restart(hang.Context(t)))
	assert.NotContains(t, s.Log(), "crash recovery")
	assert.Zero(t, value[int](t, db, "select count(*) from kept"))
}

func TestRestartStartsNothingAfterClose(t *testing.T) {
	s, err := mysqltest.Start(t.Context(), nil)
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
}

func TestPausedServerKeepsRequestsWaiting(t *testing.T) {
	s := mysqltest.New(t, nil)
	db := connect(t, s)
	require.NoError(t, db.PingContext(hang.Context(t)))

	require.NoError(t, s.Pause())
	ended := make(chan error, 1)
	go func() { ended <- db.PingContext(hang.Context(t)) }() // ends after Resume
	require.Never(t, func() bool { return len(ended) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	require.ErrorIs(t, s.Stop(hang.Ending(t, 50*time.Millisecond)), context.DeadlineExceeded, "a paused process does not receive SIGTERM")

	require.NoError(t, s.Resume())
	hang.Receive(t, ended, "the request stays") //nolint:errcheck // it may have been answered, or not
	hang.Until(t, func() bool { return testserver.Refused(s.Addr()) }, "the server does not end")
}

// orphanParent starts two servers, of which one is paused.
func orphanParent() ([]testserver.Server, error) {
	ctx := context.Background()
	running, err := mysqltest.Start(ctx, &mysqltest.Options{Disk: true})
	if err != nil {
		return nil, err
	}
	paused, err := mysqltest.Start(ctx, &mysqltest.Options{Disk: true})
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "linux" {
		err = paused.Pause()
	}
	return []testserver.Server{{Pid: running.Pid(), Addr: running.Addr()}, {Pid: paused.Pid(), Addr: paused.Addr()}}, err
}
