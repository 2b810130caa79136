package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

// examine returns what is found out by a connection to a URL.
func (s store) examine(t testing.TB, url string) pgbackend.Report {
	t.Helper()
	r, err := pgbackend.Examine(hang.Context(t), connect(t, url), s.schema)
	require.NoError(t, err)
	return r
}

func TestAServerIsExamined(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := s.client(t, recipetest.EventTTL)
	recipetest.Unlock(t, c.Lock(t, "y"))
	h := c.Lock(t, "x")
	id := numberOf(t, c)
	s.exec(t, `update fairlock.session set renewed = now() - interval '1 hour' where id = $1`, id)
	tx := s.conn(t)
	_, err := tx.Exec(hang.Context(t), "set application_name to 'report'; begin; select 1")
	require.NoError(t, err)

	r := s.examine(t, s.server.URL())

	assert.Regexp(t, `^\d+(\.\d+)?$`, r.Version)
	assert.False(t, r.Standby || r.Pooled)
	assert.True(t, r.Fsync && r.FullPageWrites && r.SynchronousCommit && r.Autovacuum && r.Listens)
	assert.Empty(t, append(r.Hidden, r.Missing...))
	assert.Equal(t, []any{1, 2 * recipetest.EventTTL, r.Life, time.Duration(0)}, []any{r.Layout, r.MaxTTL, r.Stored, r.Counted})
	assert.True(t, strings.HasPrefix(r.Life, r.System+":"), r.Life)
	assert.Equal(t, []int{1, 1, 1, 1}, []int{r.Sessions, r.Stale, r.Queues, r.Entries})
	assert.Greater(t, r.Connections, 2)
	assert.Positive(t, r.MaxConnections)
	assert.Positive(t, r.Size)
	assert.Positive(t, r.Within)
	assert.Positive(t, r.OldestTransaction)
	assert.Equal(t, "report", r.OldestBy)
	assert.Less(t, max(r.Clock, -r.Clock), time.Minute)
	assert.Equal(t, driver.Keeps{}, r.Keeps())
	recipetest.Unlock(t, h)
}

func TestTablesThatAreMissingOrOfAnotherLifeAreSeen(t *testing.T) {
	t.Parallel()
	s := shared(t)
	r := s.examine(t, s.server.URL())
	assert.Zero(t, r.Layout)
	assert.Empty(t, r.Hidden)
	s.apply(t, 0)
	s.exec(t, "create role "+s.schema+"_outside login")

	r = s.examine(t, s.server.URLAs(s.schema+"_outside", ""))
	assert.Zero(t, r.Layout)
	assert.Contains(t, fmt.Sprint(r.Hidden), "tables: permission denied for schema "+s.schema)
	assert.Contains(t, r.Missing, "USAGE on schema "+s.schema)

	s.exec(t, fmt.Sprintf("update %s.meta set life = 'other', claim = 'x', counted_ms = 7000", s.schema))
	r = s.examine(t, s.server.URL())
	assert.Equal(t, []any{"other", 7 * time.Second}, []any{r.Stored, r.Counted})
	assert.NotEqual(t, r.Stored, r.Life)
}

func TestEachMissingRightIsSeen(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 0)
	i := 0
	for object, names := range rights {
		for name := range strings.FieldsSeq(names) {
			i++
			role := fmt.Sprint(s.schema, "_lacks", i)
			s.exec(t, "create role "+role+" login")
			s.grant(t, role, name+" on "+object)

			assert.Equal(t, []string{strings.ToUpper(name) + " on " + object}, s.examine(t, s.server.URLAs(role, "")).Missing)
		}
	}
	s.role(t, s.schema+"_complete", "")
	assert.Empty(t, s.examine(t, s.server.URLAs(s.schema+"_complete", "")).Missing)
}

func TestNotificationsThatDoNotArriveAreSeen(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	b, err := s.server.Bouncer(hang.Context(t), &pgtest.BouncerOptions{PoolSize: 5})
	require.NoError(t, err)

	r := s.examine(t, "postgres://postgres@"+b.Addr()+"/postgres?sslmode=disable")

	assert.True(t, r.Pooled)
	assert.False(t, r.Listens)
	assert.Equal(t, 1, r.Layout, "all else is seen")
}

func TestWhatIsKeptFollowsFromTheStandbys(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	standby, err := s.server.Standby(hang.Context(t), &pgtest.StandbyOptions{Name: "s1"})
	require.NoError(t, err)
	s.role(t, "sees_little", "")

	for _, url := range []string{s.server.URL(), s.server.URLAs("sees_little", "")} {
		r := s.examine(t, url)
		assert.Equal(t, []int{1, 1, 0}, []int{len(r.Standbys), r.Copies, r.Awaited})
		assert.Equal(t, driver.Keeps{Exclusion: driver.UntilSplit, Order: driver.UntilDataLoss, Tokens: driver.UntilSplit}, r.Keeps())
	}
	assert.Equal(t, "s1", s.examine(t, s.server.URL()).Standbys[0].Name)
	r := s.examine(t, standby.URL())
	assert.True(t, r.Standby)
	assert.Empty(t, r.Hidden)
	assert.Equal(t, s.examine(t, s.server.URL()).System, r.System)
	assert.Empty(t, r.Life)

	require.NoError(t, s.server.Set(hang.Context(t), "synchronous_standby_names", "s1"))
	assert.Equal(t, driver.Keeps{}, s.examine(t, s.server.URLAs("sees_little", "")).Keeps())
	require.NoError(t, s.server.Set(hang.Context(t), "synchronous_standby_names", "ANY 1 (s1, s2)"))
	assert.Equal(t, driver.Keeps{Order: driver.UntilDataLoss}, s.examine(t, s.server.URL()).Keeps(), "a standby that is not connected can be promoted")
}
