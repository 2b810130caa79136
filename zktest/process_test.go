package zktest_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/zktest"
)

func TestKilledLeaderIsReplacedAndComesBack(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3})
	works(t, e.Client(t))
	old := leader(t, e)
	pid := e.Member(old).Pid()

	e.Member(old).Kill()
	e.Member(old).Kill() // a second Kill does nothing

	require.NotEqual(t, old, leader(t, e))
	recovers(t, only(t, e, leader(t, e)))
	require.Error(t, e.Member(old).Pause(), "there is no process to pause")
	require.Error(t, e.Member(old).Stop(hang.Context(t)), "there is no process to stop")

	require.NoError(t, e.Member(old).Restart(hang.Context(t)))
	assert.NotEqual(t, pid, e.Member(old).Pid())
	recovers(t, only(t, e, old))
}

func TestRestartKeepsTheData(t *testing.T) {
	e := zktest.New(t, nil)
	m, conn := e.Member(0), e.Client(t)
	create(t, conn, "/kept")
	require.NoError(t, m.Restart(hang.Context(t)))
	assert.True(t, exists(t, only(t, e, 0), "/kept"))

	m.Kill()
	require.NoError(t, m.Restart(hang.Context(t)))
	assert.True(t, exists(t, only(t, e, 0), "/kept"))

	require.NoError(t, m.Stop(hang.Context(t)))
	assert.True(t, testserver.Refused(m.Direct()))
	require.NoError(t, m.Restart(hang.Context(t)))
	assert.True(t, exists(t, only(t, e, 0), "/kept"))
}

func TestRestartedMemberGoesOnTrying(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3})
	for i := range e.Len() {
		e.Member(i).Kill()
	}

	require.ErrorIs(t, e.Member(0).Restart(hang.Ending(t, 500*time.Millisecond)), context.DeadlineExceeded, "it is no majority")
	require.NoError(t, e.Member(1).Restart(hang.Context(t)))

	recovers(t, only(t, e, 0))
}

func TestRestartStartsNothingAfterClose(t *testing.T) {
	e, err := zktest.Start(t.Context(), nil)
	require.NoError(t, err)
	restarted := make(chan struct{})
	go func() { // ends with Close
		defer close(restarted)
		_ = e.Member(0).Restart(t.Context()) // it may have been the first
	}()

	require.NoError(t, e.Close())
	<-restarted

	assert.True(t, testserver.Refused(e.Member(0).Direct()))
	require.ErrorContains(t, e.Member(0).Restart(t.Context()), "closed")
	assert.True(t, testserver.Refused(e.Member(0).Direct()))
}

func TestWipedMemberKnowsNothing(t *testing.T) {
	e := zktest.New(t, nil)
	create(t, e.Client(t), "/lost")
	require.Error(t, e.Member(0).Wipe(), "it is running")

	e.Member(0).Kill()
	require.NoError(t, e.Member(0).Wipe())
	require.NoError(t, e.Member(0).Restart(hang.Context(t)))

	assert.False(t, exists(t, only(t, e, 0), "/lost"))
}

func TestPausedServerKeepsRequestsWaiting(t *testing.T) {
	e := zktest.New(t, nil)
	m, conn := e.Member(0), e.Client(t)
	works(t, conn)

	require.NoError(t, m.Pause())
	answered := make(chan struct{}, 1)
	go func() { // ends after Resume, with or without an error: the server exits then
		_, _, _ = conn.Get("/")
		answered <- struct{}{}
	}()
	require.Never(t, func() bool { return len(answered) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	require.ErrorIs(t, m.Stop(hang.Ending(t, 50*time.Millisecond)), context.DeadlineExceeded, "a paused process does not receive SIGTERM")

	require.NoError(t, m.Resume())
	<-answered
	hang.Until(t, func() bool { return testserver.Refused(m.Direct()) }, "the server does not end")
}

func TestPausedLeaderIsReplacedAndFollows(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3})
	old := leader(t, e)

	require.NoError(t, e.Member(old).Pause())
	require.NotEqual(t, old, leader(t, e))
	recovers(t, only(t, e, leader(t, e)))

	require.NoError(t, e.Member(old).Resume())
	recovers(t, only(t, e, old))
}

// orphanParent starts an ensemble. One member is paused, so that only the kernel can end
// it.
func orphanParent() ([]testserver.Server, error) {
	e, err := zktest.Start(context.Background(), &zktest.Options{Members: 3, Fsync: true})
	if err != nil {
		return nil, err
	}
	var all []testserver.Server
	for i := range e.Len() {
		all = append(all, testserver.Server{Pid: e.Member(i).Pid(), Addr: e.Member(i).Direct()})
	}
	if runtime.GOOS == "linux" {
		err = e.Member(0).Pause()
	}
	return all, err
}

func TestServersDieWithTheirParent(t *testing.T) { testserver.DieWithParent(t, 3) }
