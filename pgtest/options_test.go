package pgtest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/testnet"
)

// connects returns how a connection to a URL fails.
func connects(t *testing.T, url string) error {
	t.Helper()
	conn, err := pgx.Connect(hang.Context(t), url)
	if err != nil {
		return err
	}
	defer conn.Close(hang.Context(t))
	return conn.Ping(hang.Context(t))
}

func TestSettingsAreThoseOfTheOptions(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{Config: map[string]string{"fsync": "off", "synchronous_commit": "local", "cluster_name": "it's mine"}})
	for name, want := range map[string]string{
		"fsync": "off", "synchronous_commit": "local", "cluster_name": "it's mine", "shared_buffers": "16MB", "max_connections": "500", "data_checksums": "off",
	} {
		assert.Equal(t, want, value[string](t, s, "select current_setting($1)", name), name)
	}
	plain := pgtest.New(t, nil)
	assert.Equal(t, "on", value[string](t, plain, "show fsync"))
	assert.Equal(t, "on", value[string](t, plain, "show synchronous_commit"))

	for _, opts := range []*pgtest.Options{
		{Config: map[string]string{"": "x"}},
		{Config: map[string]string{"a = b": "x"}},
		{Config: map[string]string{"a": "x\ny"}},
		{Access: []string{"a\nb"}},
		{StartTimeout: -1},
		{Dir: "nowhere"},
		{Programs: "nowhere"},
	} {
		_, err := pgtest.Start(t.Context(), opts)
		require.ErrorContains(t, err, "pgtest: ", "%+v", opts)
	}
	_, err := pgtest.Start(t.Context(), &pgtest.Options{Config: map[string]string{"no_such_setting": "x"}})
	require.ErrorContains(t, err, "no_such_setting")
	require.ErrorContains(t, s.Set(t.Context(), "a; drop", "x"), "want a name")
	require.ErrorContains(t, s.Reset(t.Context(), ""), "want a name")
}

func TestRolesMayNeedPasswords(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{Access: []string{"host all app 127.0.0.1/32 scram-sha-256"}})
	require.NoError(t, s.Exec(hang.Context(t), "create role app login password 'one@two'; create role other login"))

	require.NoError(t, connects(t, s.URLAs("app", "one@two")))
	require.ErrorContains(t, connects(t, s.URLAs("app", "three")), "password authentication failed")
	require.NoError(t, connects(t, s.URLAs("other", "")))
	require.ErrorContains(t, connects(t, s.URLAs("nobody", "")), "does not exist")
	require.NoError(t, connects(t, s.URL()))
}

func TestTLSIsVerified(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{TLS: true, Access: []string{"hostssl all app 127.0.0.1/32 cert"}})
	require.NoError(t, s.Exec(hang.Context(t), "create role app login"))
	require.NoError(t, connects(t, s.URL()))
	require.ErrorContains(t, connects(t, "postgres://postgres@"+s.Addr()+"/postgres?sslmode=disable"), "no encryption")
	require.Error(t, connects(t, s.URLAs("app", "")), "it has no certificate")
	cert, key, err := s.CA().Issue("app")
	require.NoError(t, err)
	require.NoError(t, connects(t, s.URLAs("app", "")+"&sslcert="+cert+"&sslkey="+key))

	expired := pgtest.New(t, &pgtest.Options{TLS: true, ServerCA: (*testnet.CA).Expired})
	require.ErrorContains(t, connects(t, expired.URL()), "expired")
	assert.Nil(t, pgtest.New(t, nil).CA())
}

func TestClockIsShifted(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{Clock: true})
	conn := s.Conn(t)
	// ahead returns how far the server's clock is ahead, less the time that the question took.
	ahead := func() (least, most time.Duration) {
		var at time.Time
		before := time.Now()
		require.NoError(t, conn.QueryRow(hang.Context(t), "select clock_timestamp()").Scan(&at))
		return time.Until(at), at.Sub(before)
	}
	for _, shift := range []time.Duration{0, time.Hour, 90 * time.Minute, -10 * time.Second, 1500 * time.Millisecond, 0} {
		require.NoError(t, s.SetClock(shift))
		least, most := ahead()
		assert.LessOrEqual(t, least, shift)
		assert.GreaterOrEqual(t, most, shift)
	}
	now := time.Now()
	require.NoError(t, s.SetClock(24*time.Hour))
	require.NoError(t, s.Restart(hang.Context(t)))
	assert.True(t, value[time.Time](t, s, "select clock_timestamp()").After(now.Add(23*time.Hour)))

	require.ErrorContains(t, pgtest.New(t, nil).SetClock(time.Hour), "Options.Clock")
}

// The server measures with its monotonic clock, which an operator cannot set.
func TestMeasuredTimesDoNotFollowTheClock(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{Clock: true})
	conn := s.Conn(t)
	var plan []struct {
		Took float64 `json:"Execution Time"`
	}
	ended := answers(t, func() error {
		return conn.QueryRow(hang.Context(t), "explain (analyze, format json) select pg_sleep(600)").Scan(&plan)
	})
	hang.Until(t, func() bool {
		return value[int](t, s, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == 1
	}, "the query does not run")

	require.NoError(t, s.SetClock(24*time.Hour))
	require.NoError(t, s.Exec(hang.Context(t), "select pg_reload_conf()"), "it wakes the backend")

	require.NoError(t, hang.Receive(t, ended, "the query goes on"))
	assert.Less(t, plan[0].Took, float64(time.Hour.Milliseconds()))
}

func TestDataIsInTheGivenDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // the server may be another user's
	s := pgtest.New(t, &pgtest.Options{Dir: dir})
	assert.FileExists(t, dir+"/data/PG_VERSION")
	_, err := pgtest.Start(t.Context(), &pgtest.Options{Dir: dir})
	require.ErrorContains(t, err, "not empty")
	require.NoError(t, s.Close())
	assert.FileExists(t, dir+"/data/PG_VERSION")
}
