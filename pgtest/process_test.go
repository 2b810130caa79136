package pgtest_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/pgtest"
)

func TestKilledServerKeepsWhatWasCommitted(t *testing.T) {
	s := pgtest.New(t, nil)
	conn, pid := s.Conn(t), s.Pid()
	_, err := conn.Exec(hang.Context(t), "create table kept (id int); insert into kept values (7)")
	require.NoError(t, err)

	s.Kill()
	s.Kill() // a second Kill does nothing

	assert.True(t, testserver.Refused(s.Addr()))
	require.Error(t, conn.Ping(hang.Context(t)))
	require.Error(t, s.Pause(), "there is no process to pause")
	require.Error(t, s.Stop(hang.Context(t)), "there is no process to stop")

	require.NoError(t, s.Restart(hang.Context(t)))
	assert.NotEqual(t, pid, s.Pid())
	assert.Equal(t, 7, value[int](t, s, "select id from kept"))
	assert.Contains(t, s.Log(), "was not properly shut down")
}

func TestStoppedServerKeepsItsData(t *testing.T) {
	s := pgtest.New(t, nil)
	require.NoError(t, s.Exec(hang.Context(t), "create table kept ()"))

	require.NoError(t, s.Stop(hang.Context(t)))
	assert.True(t, testserver.Refused(s.Addr()))
	assert.Contains(t, s.Log(), "database system is shut down")

	require.NoError(t, s.Restart(hang.Context(t)))
	assert.NotContains(t, s.Log(), "was not properly shut down")
	assert.True(t, value[bool](t, s, "select to_regclass('kept') is not null"))
}

func TestRestartStartsNothingAfterClose(t *testing.T) {
	s, err := pgtest.Start(t.Context(), nil)
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

// answers starts a query and returns what receives its end.
func answers(t *testing.T, query func() error) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- query() }() // ends after Resume
	return ended
}

func TestPausedServerKeepsRequestsWaiting(t *testing.T) {
	s := pgtest.New(t, nil)
	conn := s.Conn(t)

	require.NoError(t, s.Pause())
	ended := answers(t, func() error { return conn.Ping(hang.Context(t)) })
	require.Never(t, func() bool { return len(ended) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	require.ErrorIs(t, s.Stop(hang.Ending(t, 50*time.Millisecond)), context.DeadlineExceeded, "a paused process does not receive SIGINT")
	require.NoError(t, s.Pause(), "it is paused already")

	require.NoError(t, s.Resume())
	hang.Receive(t, ended, "the request stays") //nolint:errcheck // it may have been answered, or not
	hang.Until(t, func() bool { return testserver.Refused(s.Addr()) }, "the server does not end")
}

func TestPausedBackendIsAlone(t *testing.T) {
	s := pgtest.New(t, nil)
	stopped, other := s.Conn(t), s.Conn(t)
	pid := int(stopped.PgConn().PID())

	require.NoError(t, s.PauseProcess(pid))
	ended := answers(t, func() error { return stopped.Ping(hang.Context(t)) })
	require.Never(t, func() bool { return len(ended) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, other.Ping(hang.Context(t)))
	require.NoError(t, s.ResumeProcess(pid))
	require.NoError(t, <-ended)

	require.NoError(t, s.PauseProcess(pid))
	require.NoError(t, s.Resume(), "it resumes this one too")
	require.NoError(t, stopped.Ping(hang.Context(t)))
	require.Error(t, s.PauseProcess(os.Getpid()), "it is none of the server's")
	require.Error(t, s.ResumeProcess(s.Pid()), "it is not a child")
}

func TestKilledBackendRestartsTheOthers(t *testing.T) {
	s := pgtest.New(t, nil)
	killed, other, pid := s.Conn(t), s.Conn(t), s.Pid()

	require.NoError(t, s.KillProcess(int(killed.PgConn().PID())))

	hang.Until(t, func() bool { return other.Ping(hang.Context(t)) != nil }, "the other backend lives")
	hang.Until(t, func() bool { return s.Exec(hang.Context(t), "select 1") == nil }, "the server does not recover")
	assert.Equal(t, pid, s.Pid())
}

// orphanParent starts two servers and a pooler. One server is paused, so that only its guard can end
// its children.
func orphanParent() ([]testserver.Server, error) {
	ctx := context.Background()
	running, err := pgtest.Start(ctx, &pgtest.Options{Disk: true})
	if err != nil {
		return nil, err
	}
	pooler, err := running.Bouncer(ctx, nil)
	if err != nil {
		return nil, err
	}
	paused, err := pgtest.Start(ctx, &pgtest.Options{Disk: true})
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "linux" {
		err = paused.Pause()
	}
	return []testserver.Server{{Pid: running.Pid(), Addr: running.Addr()}, {Pid: 0, Addr: pooler.Addr()}, {Pid: paused.Pid(), Addr: paused.Addr()}}, err
}
