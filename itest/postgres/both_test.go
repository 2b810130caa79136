package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// TestBoth runs the cases with client processes that etcd's and ZooKeeper's tests run too.
func TestBoth(t *testing.T) {
	both.RunProcesses(t, "postgres", func(t testing.TB) both.Processes {
		s := shared(t)
		s.apply(t, 2*recipetest.EventTTL)
		s.exec(t, fmt.Sprintf("create table %s.written (key text primary key, value text, times integer)", s.schema))
		pool, err := pgxpool.New(t.Context(), s.path())
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return bothService{s, pool}
	})
}

// bothService is a schema, and a root of the same name, on the calm server.
type bothService struct {
	store

	pool *pgxpool.Pool // the tables need no schema
}

// path is the address of the server with the schema in the search path.
func (s store) path() string { return s.server.URL() + "&search_path=" + s.schema }

func (s bothService) Servers() []string { return []string{s.path()} }
func (s bothService) Root() string      { return s.schema }

func (s bothService) Client(t testing.TB, ttl time.Duration) *recipetest.Client {
	return s.client(t, ttl, func(o *pgbackend.Options) { o.Root = s.schema })
}

func (s bothService) Key(t testing.TB) string {
	s.exec(t, fmt.Sprintf("insert into %s.written values ('result', '', 0)", s.schema))
	return "result"
}

func (s bothService) Write(t testing.TB, h *session.Hold, key, value string) bool {
	query, args := pgbackend.Guard(h)
	ok, err := guarded(recipetest.Bounded(t), s.pool, query, args, key, value)
	require.NoError(t, err)
	return ok
}

func (s bothService) Written(t testing.TB, key string) (value string, times int) {
	require.NoError(t, s.pool.QueryRow(recipetest.Bounded(t), "select value, times from written where key = $1", key).Scan(&value, &times))
	return value, times
}

// monitor has the server notify of each entry that is made and deleted: in the order of the commits.
// It identifies entries by their places, which are the tokens.
const monitor = `
create function seen() returns trigger language plpgsql as $$ begin
	perform pg_notify(tg_table_schema, case tg_op when 'INSERT' then 'made ' || new.place else 'ended ' || old.place end);
	return null;
end $$;
create trigger seen after insert or delete on entry for each row execute function seen();
`

func (s bothService) Monitor(t testing.TB) both.Monitor {
	w := &both.History[int64]{
		Of: func(u worker.Turn) int64 { return u.Token },
		Left: func(t testing.TB) {
			assert.Zero(t, value[int](t, s.store, "select count(*) from entry"), "entries that are left")
		},
	}
	conn := s.conn(t)
	_, err := conn.Exec(recipetest.Bounded(t), monitor+"listen "+s.schema)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				w.Failed(err)
				return
			}
			var what string
			var place int64
			_, err = fmt.Sscan(n.Payload, &what, &place)
			switch {
			case err != nil:
				w.Failed(err)
			case what == "made":
				w.Made(place)
			default:
				w.Ended(place)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}
