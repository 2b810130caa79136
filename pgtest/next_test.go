package pgtest_test

import (
	"cmp"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/pgtest"
)

// TestTheNextMajorVersionWorks: "make postgres-next" unpacks it.
func TestTheNextMajorVersionWorks(t *testing.T) {
	tier.Seldom(t)
	s := pgtest.New(t, &pgtest.Options{Programs: cmp.Or(os.Getenv("FAIRLOCK_POSTGRES_NEXT"), "../bin/postgres-next/bin"), Clock: true, TLS: true})
	assert.GreaterOrEqual(t, value[int](t, s, "select current_setting('server_version_num')::int"), 18_00_00)
	require.NoError(t, s.Exec(hang.Context(t), "create table kept ()"))
	b := standby(t, s, nil)
	require.NoError(t, b.CatchUp(hang.Context(t)))
	require.NoError(t, b.CutOff(hang.Context(t)))
	require.NoError(t, s.Pause())
	require.NoError(t, b.Promote(hang.Context(t)))
	require.NoError(t, b.Exec(hang.Context(t), "insert into kept default values"))
	require.NoError(t, s.Resume())
	require.NoError(t, s.Restart(hang.Context(t)))
	assert.Equal(t, 0, value[int](t, s, rows))
	require.NoError(t, connects(t, s.URL()))
}
