package zktest_test

import (
	"os"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/zktest"
)

func TestMembersWithAFullDiskServeNoClientUntilRestarted(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3})
	conn := e.Client(t)
	works(t, conn)
	for range 2 {
		full := leader(t, e)

		require.NoError(t, e.Member(full).Fill())

		hang.Until(t, func() bool {
			_, _ = conn.Create("/n", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)) // it notices only when it writes
			return leader(t, e) != full
		}, "the full member goes on leading")
		recovers(t, conn)
		require.NoError(t, e.Member(full).Restart(hang.Context(t)))
		works(t, only(t, e, full))
	}
	lead := leader(t, e)
	follower := (lead + 1) % 3
	require.NoError(t, e.Member(follower).Fill())
	works(t, only(t, e, lead))
	hang.Until(t, func() bool {
		answer, err := e.Member(follower).Command(t.Context(), "srvr")
		return err != nil || answer == "This ZooKeeper instance is not currently serving requests\n"
	}, "the full member goes on serving")
	require.NoError(t, e.Member(follower).Restart(hang.Context(t)))
	works(t, only(t, e, follower))

	e.Member(follower).Kill()
	assert.ErrorIs(t, e.Member(follower).Fill(), os.ErrProcessDone)
}
