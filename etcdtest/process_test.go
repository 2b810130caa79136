package etcdtest_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
)

func TestKilledLeaderIsReplacedAndComesBack(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})
	works(t, c.Client(t))
	old := leader(t, c)
	pid := c.Member(old).Pid()

	c.Member(old).Kill()
	c.Member(old).Kill()

	require.NotEqual(t, old, leader(t, c))
	recovers(t, only(t, c, leader(t, c)))
	require.Error(t, c.Member(old).Pause(), "there is no process to pause")

	require.NoError(t, c.Member(old).Restart(hang.Context(t)))
	assert.NotEqual(t, pid, c.Member(old).Pid())
	recovers(t, only(t, c, old))
}

func TestRestartKeepsTheData(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	dir, err := filepath.Rel(wd, t.TempDir())
	require.NoError(t, err)
	c := etcdtest.New(t, &etcdtest.Options{Processes: true, Dir: dir})
	_, err = only(t, c, 0).Put(hang.Context(t), "key", "kept")
	require.NoError(t, err)
	elsewhere := filepath.Join(t.TempDir(), strings.Repeat("d/", 20)) // deeper than here, so that dir is nothing there
	require.NoError(t, os.MkdirAll(elsewhere, 0o700))
	t.Chdir(elsewhere)
	require.NoError(t, c.Member(0).Restart(hang.Context(t)))

	got, err := only(t, c, 0).Get(hang.Context(t), "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	assert.Equal(t, "kept", string(got.Kvs[0].Value))
}

// etcd waits for ever for a transfer to a member that it has not reached in time.
func TestMoveLeaderTriesAgainWhenTheMemberIsBack(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})
	to := (leader(t, c) + 1) % 3
	c.Member(to).Kill()
	ctx := hang.Context(t)
	moved := make(chan error, 1)
	go func() { moved <- c.MoveLeader(ctx, to) }() // ends with ctx

	require.ErrorIs(t, c.MoveLeader(hang.Ending(t, 2*time.Second), to), context.DeadlineExceeded)
	require.NoError(t, c.Member(to).Restart(hang.Context(t)))

	require.NoError(t, <-moved)
	assert.Equal(t, to, leader(t, c))
}

func TestRestartedMemberGoesOnTrying(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Processes: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	require.ErrorIs(t, c.Member(0).Restart(ctx), context.Canceled)

	recovers(t, only(t, c, 0))
}

func TestRestartStartsNothingAfterClose(t *testing.T) {
	c, err := etcdtest.Start(t.Context(), &etcdtest.Options{Processes: true})
	require.NoError(t, err)
	u, err := url.Parse(c.Member(0).Direct())
	require.NoError(t, err)
	restarted := make(chan struct{})
	go func() { // ends with Close
		defer close(restarted)
		_ = c.Member(0).Restart(t.Context()) // it may have been the first
	}()

	require.NoError(t, c.Close())
	<-restarted

	assert.True(t, testserver.Refused(u.Host))
	require.ErrorContains(t, c.Member(0).Restart(t.Context()), "closed")
	assert.True(t, testserver.Refused(u.Host))
}

func TestPausedLeaderIsReplacedAndFollows(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})
	old := leader(t, c)

	require.NoError(t, c.Member(old).Pause())
	require.NotEqual(t, old, leader(t, c))
	recovers(t, only(t, c, leader(t, c)))

	require.NoError(t, c.Member(old).Resume())
	recovers(t, only(t, c, old))
}

// orphanParent starts a cluster. One member is paused, so that only the kernel can end
// it.
func orphanParent() ([]testserver.Server, error) {
	c, err := etcdtest.Start(context.Background(), &etcdtest.Options{Members: 3, Processes: true, Fsync: true})
	if err != nil {
		return nil, err
	}
	var all []testserver.Server
	for i := range c.Len() {
		u, err := url.Parse(c.Member(i).Direct())
		if err != nil {
			return nil, err
		}
		all = append(all, testserver.Server{Pid: c.Member(i).Pid(), Addr: u.Host})
	}
	if runtime.GOOS == "linux" {
		err = c.Member(0).Pause()
	}
	return all, err
}

func TestProcessesDieWithTheirParent(t *testing.T) { testserver.DieWithParent(t, 3) }
