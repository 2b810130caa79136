package pgtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgtest"
)

// standby starts one of a server.
func standby(t *testing.T, s *pgtest.Server, opts *pgtest.StandbyOptions) *pgtest.Server {
	t.Helper()
	b, err := s.Standby(hang.Context(t), opts)
	require.NoError(t, err)
	return b
}

const rows = "select count(*) from kept"

func TestStandbyLagsAndIsPromoted(t *testing.T) {
	s := pgtest.New(t, nil)
	require.NoError(t, s.Exec(hang.Context(t), "create table kept (); insert into kept default values"))
	b := standby(t, s, nil)
	require.NoError(t, b.CatchUp(hang.Context(t)))
	assert.Equal(t, 1, value[int](t, b, rows))
	require.Error(t, b.Exec(hang.Context(t), "insert into kept default values"), "it is read only")

	require.NoError(t, b.CutOff(hang.Context(t)))
	require.NoError(t, s.Exec(hang.Context(t), "insert into kept default values"))
	require.ErrorContains(t, b.CatchUp(hang.Ending(t, 300*time.Millisecond)), "deadline")
	assert.Equal(t, 1, value[int](t, b, rows))

	require.NoError(t, b.Rejoin(hang.Context(t)))
	require.NoError(t, b.CatchUp(hang.Context(t)))
	assert.Equal(t, 2, value[int](t, b, rows))

	require.NoError(t, b.CutOff(hang.Context(t)))
	require.NoError(t, s.Exec(hang.Context(t), "insert into kept default values"))
	s.Kill()
	conn := b.Conn(t)
	require.NoError(t, b.Promote(hang.Context(t)))
	_, err := conn.Exec(hang.Context(t), "delete from kept where false")
	require.NoError(t, err, "it accepts writes")
	require.NoError(t, b.Exec(hang.Context(t), "insert into kept select from generate_series(1, 10)"))
	assert.Equal(t, 12, value[int](t, b, rows), "the last row of the old primary is lost")
	const life = "select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
	assert.Equal(t, "00000002", value[string](t, b, life), "it has another timeline")

	require.NoError(t, b.Restart(hang.Context(t)))
	assert.Equal(t, 12, value[int](t, b, rows))
	require.NoError(t, s.Restart(hang.Context(t)))
	assert.Equal(t, 3, value[int](t, s, rows), "now there are two primaries")
	assert.Equal(t, "00000001", value[string](t, s, life))
}

func TestSynchronousStandby(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{Config: map[string]string{"max_connections": "30"}})
	first := standby(t, s, nil)
	require.NoError(t, s.Set(hang.Context(t), "synchronous_standby_names", first.Name()))
	require.NoError(t, s.Set(hang.Context(t), "synchronous_commit", "remote_apply"))
	second := standby(t, s, &pgtest.StandbyOptions{Name: "far", Config: map[string]string{"recovery_min_apply_delay": "1h"}})
	assert.Equal(t, "standby1", first.Name())
	assert.Equal(t, "far", second.Name())
	assert.Empty(t, value[string](t, second, "show synchronous_standby_names"))
	hang.Until(t, func() bool {
		return value[int](t, s, "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1
	}, "no standby is synchronous")

	require.NoError(t, s.Exec(hang.Context(t), "create table kept ()"))

	const there = "select to_regclass('kept') is not null"
	assert.True(t, value[bool](t, first, there))
	assert.False(t, value[bool](t, second, there))
	require.NoError(t, first.CutOff(hang.Context(t)))
	require.Error(t, s.Exec(hang.Ending(t, 300*time.Millisecond), "create table more ()"), "it waits for the standby")
	require.NoError(t, s.Reset(hang.Context(t), "synchronous_standby_names"))
	require.NoError(t, s.Exec(hang.Context(t), "create table yet_more ()"))
}

func TestOnlyAStandbyIsPromoted(t *testing.T) {
	s := pgtest.New(t, nil)
	require.ErrorContains(t, s.Promote(hang.Context(t)), "not a standby")
	require.ErrorContains(t, s.CatchUp(hang.Context(t)), "not a standby")
	_, err := s.Standby(hang.Context(t), &pgtest.StandbyOptions{Name: "Two words"})
	require.ErrorContains(t, err, "Two words")
}
