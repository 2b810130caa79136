package etcdtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
)

func TestEveryKindOfClusterWorks(t *testing.T) {
	for name, opts := range map[string]*etcdtest.Options{
		"single":             nil,
		"three":              {Members: 3},
		"proxied":            {Members: 3, Proxied: true},
		"fsync":              {Fsync: true},
		"tls":                {TLS: true},
		"process":            {Processes: true},
		"everything at once": {Members: 3, Processes: true, Proxied: true, TLS: true, Fsync: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := etcdtest.New(t, opts)
			works(t, c.Client(t))

			for i := range c.Len() {
				m := c.Member(i)
				works(t, only(t, c, i))
				assert.NotZero(t, m.ID())
				assert.Equal(t, c.Endpoints()[i], m.Endpoint())
				if opts != nil && opts.Processes {
					assert.NotZero(t, m.Pid())
					assert.Nil(t, m.Server())
				} else {
					assert.Zero(t, m.Pid())
					assert.EqualValues(t, m.ID(), m.Server().MemberID())
				}
			}
		})
	}
}

func TestMoveLeader(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3})
	for i := range c.Len() {
		require.NoError(t, c.MoveLeader(hang.Context(t), i))
		assert.Equal(t, i, leader(t, c))
	}
	works(t, c.Client(t))
}

func TestALearnerIsTheLastMemberAndRefusesRequests(t *testing.T) {
	for name, opts := range map[string]etcdtest.Options{
		"embedded": {Learner: true, Proxied: true}, "processes": {Learner: true, Processes: true}, "of three": {Members: 3, Learner: true, Processes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.New(t, &opts)
			last := c.Len() - 1
			assert.Equal(t, max(opts.Members, 1), last)
			assert.NotEqual(t, last, leader(t, c))
			works(t, only(t, c, 0))
			learner := only(t, c, last)
			r, err := learner.Status(hang.Context(t), c.Member(last).Direct())
			require.NoError(t, err)
			assert.True(t, r.IsLearner)
			_, err = learner.Put(hang.Context(t), "key", "value")
			require.ErrorIs(t, err, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner))
		})
	}
}

func TestTLSRefusesClientsWithoutACertificate(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{TLS: true})
	other, err := c.CA().Client("other")
	require.NoError(t, err)
	other.Certificates = nil
	client, err := c.NewClient(func(cfg *clientv3.Config) { cfg.TLS = other })
	require.NoError(t, err)
	defer client.Close()

	_, err = client.Get(hang.Ending(t, time.Second), "key")
	require.Error(t, err)
}

func TestClientsDoNotShareTheirTLS(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{TLS: true})
	client, err := c.NewClient(func(cfg *clientv3.Config) { cfg.TLS.Certificates = nil })
	require.NoError(t, err)
	defer client.Close()

	works(t, c.Client(t))
}

func TestCertificateIsTheUser(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{TLS: true})
	root := c.Client(t)
	ctx := hang.Context(t)
	for _, user := range []string{"root", "alice"} {
		_, err := root.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true})
		require.NoError(t, err)
	}
	_, err := root.UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = root.AuthEnable(ctx)
	require.NoError(t, err)
	as, err := c.CA().Client("alice")
	require.NoError(t, err)
	alice, err := c.NewClient(func(cfg *clientv3.Config) { cfg.TLS = as })
	require.NoError(t, err)
	defer alice.Close()

	works(t, root)
	_, err = alice.Get(ctx, "key")
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	leader(t, c)
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c, err := etcdtest.Start(t.Context(), &etcdtest.Options{Dir: dir})
	require.NoError(t, err)
	client := c.Client(t)
	ctx := hang.Context(t)
	watch := client.Watch(ctx, "key", clientv3.WithCreatedNotify())
	<-watch
	lease, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	alive, err := client.KeepAlive(ctx, lease.ID)
	require.NoError(t, err)
	<-alive

	took := metronome.Time(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Close(), "closing twice is allowed")

	assert.Less(t, took, 4*time.Second, "open streams must not hold Close up")
	_, err = client.Get(hang.Ending(t, 100*time.Millisecond), "key")
	require.Error(t, err)
	assert.DirExists(t, filepath.Join(dir, "m0"), "a directory given is the caller's")
}

func TestNonsenseIsRefused(t *testing.T) {
	for name, opts := range map[string]etcdtest.Options{
		"members":  {Members: -1},
		"tick":     {Tick: time.Microsecond},
		"election": {Tick: time.Second, Election: time.Second},
		"timeout":  {StartTimeout: -1},
		"dir":      {Dir: filepath.Join(os.DevNull, "nowhere")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := etcdtest.Start(t.Context(), &opts)
			require.ErrorContains(t, err, "etcdtest: ")
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, processes := range []bool{false, true} {
		dir := t.TempDir()
		_, err := etcdtest.Start(ctx, &etcdtest.Options{Members: 3, Processes: processes, Dir: dir})
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, os.Remove(dir), "it must be empty")
	}
}
