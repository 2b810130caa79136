package zktest_test

import (
	"context"
	"fmt"
	"math"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/zktest"
)

func TestSequenceGoesOnWhereItIsSet(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			e := zktest.New(t, &zktest.Options{Members: members})
			conn := e.Client(t)
			create(t, conn, "/queue")
			assert.Equal(t, "0000000000", sequential(t, conn))
			_, err := conn.Create("/queue/mine", []byte("data"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)

			began := time.Now()
			require.NoError(t, e.SetSequence(hang.Context(t), "/queue", 1234567))
			t.Logf("took %v", time.Since(began))

			for i := range e.Len() {
				assert.Equal(t, fmt.Sprintf("%010d", 1234567+i), sequential(t, only(t, e, i)))
			}
			_, _, err = conn.Get("/queue/mine")
			assert.NoError(t, err, "the session has to live on")
			require.NoError(t, e.SetSequence(hang.Context(t), "/queue", math.MaxInt32-1))
			assert.Equal(t, "2147483646", sequential(t, conn))
			assert.Equal(t, "2147483647", sequential(t, conn))
			assert.Equal(t, "2147483647", sequential(t, conn), "the sequence stays there")
		})
	}
}

// sequential creates the next child and returns its number.
func sequential(t *testing.T, conn *zk.Conn) string {
	t.Helper()
	var child string
	hang.Until(t, func() (ok bool) {
		var err error
		child, err = conn.Create(fmt.Sprintf("/queue/%d-", time.Now().UnixNano()), nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	}, "no child is created")
	return path.Base(child)[len(path.Base(child))-10:]
}

func TestSequenceIsRefused(t *testing.T) {
	e := zktest.New(t, nil)
	conn, pid := e.Client(t), e.Member(0).Pid()
	create(t, conn, "/queue")
	for range 3 {
		sequential(t, conn)
	}

	err := e.SetSequence(hang.Context(t), "/nowhere", 7)
	require.ErrorIs(t, err, zk.ErrNoNode)
	err = e.SetSequence(hang.Context(t), "/queue", 2)
	require.EqualError(t, err, `zktest: set sequence of "/queue" to 2: the next child gets 3 already`)
	require.NoError(t, e.SetSequence(hang.Context(t), "/queue", 3), "3 is the next number already")
	assert.Equal(t, pid, e.Member(0).Pid(), "nothing to restart for")

	require.NoError(t, e.Member(0).Pause())
	err = e.SetSequence(hang.Ending(t, 200*time.Millisecond), "/queue", 7)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestSequenceIsSetWhateverTheMembersMissed(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true})
	lead := leader(t, e)
	behind, wiped := e.Member((lead+1)%3), (lead+2)%3
	create(t, e.Client(t), "/queue")
	behind.Kill()
	conn := only(t, e, lead)
	for range 5 {
		sequential(t, conn)
	}
	e.Member(wiped).Kill()
	require.NoError(t, e.Member(wiped).Wipe())
	require.NoError(t, e.Member(wiped).Restart(hang.Context(t)))

	require.NoError(t, e.SetSequence(hang.Context(t), "/queue", 100))

	for i := range e.Len() {
		m := only(t, e, i)
		assert.True(t, exists(t, m, "/queue"))
		assert.Equal(t, fmt.Sprintf("%010d", 100+i), sequential(t, m))
		_, stat, err := m.Get("/queue")
		require.NoError(t, err)
		assert.EqualValues(t, 6+i, stat.NumChildren, "the five old children and the new ones")
	}
	require.NoError(t, e.SetSequence(hang.Context(t), "/", 50))
	path, err := only(t, e, 0).Create("/top", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	assert.Equal(t, "/top0000000050", path)
}
