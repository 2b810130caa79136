package zktest_test

import (
	"fmt"
	"math"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/zktest"
)

func TestSequenceGoesOnWhereItIsSet(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			e := zktest.New(t, &zktest.Options{Members: members})
			conn := e.Conn(t)
			_, err := conn.Create("/line", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			assert.Equal(t, "0000000000", sequential(t, conn))
			_, err = conn.Create("/line/mine", []byte("data"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)

			began := time.Now()
			require.NoError(t, e.SetSequence(within(t, soon), "/line", 1234567))
			t.Logf("took %v", time.Since(began))

			for i := range e.Len() {
				assert.Equal(t, fmt.Sprintf("%010d", 1234567+i), sequential(t, only(t, e, i)))
			}
			_, _, err = conn.Get("/line/mine")
			assert.NoError(t, err, "the session has to live on")
			require.NoError(t, e.SetSequence(within(t, soon), "/line", math.MaxInt32-1))
			assert.Equal(t, "2147483646", sequential(t, conn))
			assert.Equal(t, "2147483647", sequential(t, conn))
			assert.Equal(t, "2147483647", sequential(t, conn), "this is where it sticks")
		})
	}
}

// sequential creates the next child and returns its number.
func sequential(t *testing.T, conn *zk.Conn) string {
	t.Helper()
	var child string
	require.Eventually(t, func() (ok bool) {
		var err error
		child, err = conn.Create(fmt.Sprintf("/line/%d-", time.Now().UnixNano()), nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	}, soon, 10*time.Millisecond)
	return path.Base(child)[len(path.Base(child))-10:]
}
