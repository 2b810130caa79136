package onpg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// root begins the stored names of Fairlock's queues. The letter is the one of the layout for the
// entries of a queue.
const (
	root   = "robustness"
	prefix = root + "\x01q"
)

// logTables are a table with all changes of all queues, which triggers write in the transaction
// that makes the change. The changes of one queue get their numbers in the order of their commits,
// because Fairlock changes a queue under a lock of that queue. The names of the tables are those
// that the docs describe; no code is shared with the backend.
const logTables = `
create schema robustness;
create table robustness.log (
	id bigserial primary key, xid xid8 not null default pg_current_xact_id(), queue text not null,
	kind text not null, place bigint not null, shared boolean not null, weight bigint not null, permits bigint not null);
create index on robustness.log (xid);
create function robustness.entry() returns trigger language plpgsql security definer as $$
begin
	if tg_op = 'DELETE' then
		insert into robustness.log (queue, kind, place, shared, weight, permits) values (old.queue, 'left', old.place, old.mode = 1, old.weight, 0);
	else
		insert into robustness.log (queue, kind, place, shared, weight, permits) values (new.queue, 'joined', new.place, new.mode = 1, new.weight, 0);
	end if;
	return null;
end $$;
create trigger log after insert or delete on fairlock.entry for each row execute function robustness.entry();
create function robustness.permits() returns trigger language plpgsql security definer as $$
begin
	insert into robustness.log (queue, kind, place, shared, weight, permits)
		values (new.queue, 'limit', 0, false, 0, convert_from(new.value, 'UTF8')::bigint);
	return null;
end $$;
create trigger log after insert or update on fairlock.record for each row when (new.name = 'limit') execute function robustness.permits();
`

// feed records all changes of all queues, in the order of the server.
type feed struct {
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	server *pgtest.Server
	conn   *pgx.Conn
	from   int64              // the transactions before this one have been read
	read   map[int64]struct{} // the changes of later ones that have been read
	queues map[string][]history.Change
	left   map[int64]history.Instant // when a place was seen to be gone
}

// feedEvery is the time between two reads.
const feedEvery = 20 * time.Millisecond

// follow starts a feed.
//
//nolint:contextcheck // it outlives the call; close ends it
func follow(server *pgtest.Server) *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{
		stop: stop, done: make(chan struct{}), server: server,
		read: map[int64]struct{}{}, queues: map[string][]history.Change{}, left: map[int64]history.Instant{},
	}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			_ = f.next(ctx) // of or the next turn reports it
			wait(ctx, feedEvery)
		}
	}()
	return f
}

// follow goes on with another server, which has what was replicated to it. What is read from now
// on is what happens from now on.
func (f *feed) follow(ctx context.Context, server *pgtest.Server) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangup() //nolint:contextcheck // it bounds itself
	f.server = server
	f.from, f.read = 0, map[int64]struct{}{}
	return server.Exec(ctx, "delete from robustness.log")
}

func (f *feed) hangup() {
	if f.conn != nil {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = f.conn.Close(closing) // it may be broken
		f.conn = nil
	}
}

// next reads the changes that are new. A transaction that had not ended at the last read is not
// before the oldest one that was under way then.
func (f *feed) next(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil {
		f.conn, err = f.server.Connect(ctx)
		if err != nil {
			return err
		}
	}
	rows, err := f.conn.Query(ctx, `select s.oldest, l.id, l.xid::text::bigint, l.queue, l.kind, l.place, l.shared, l.weight, l.permits
		from (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest) s
		left join robustness.log l on l.xid >= $1::text::xid8 order by l.id`, fmt.Sprint(f.from))
	var all []row
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	}
	if err != nil {
		f.hangup() //nolint:contextcheck // it bounds itself
		return fmt.Errorf("onpg: read the log: %w", err)
	}
	f.apply(all)
	return nil
}

// row is one row of the log; all but Oldest is nil if the log has no new one.
type row struct {
	Oldest         int64
	ID, Xid        *int64
	Queue, Kind    *string
	Place          *int64
	Shared         *bool
	Weight, Permit *int64
}

// apply adds the rows that are new.
func (f *feed) apply(all []row) {
	seen := trial.Now()
	read := map[int64]struct{}{}
	for _, r := range all {
		f.from = r.Oldest
		if r.ID == nil {
			continue
		}
		read[*r.ID] = struct{}{}
		_, known := f.read[*r.ID]
		queue, ours := strings.CutPrefix(*r.Queue, prefix)
		if known || !ours {
			continue
		}
		f.queues[queue] = append(f.queues[queue], history.Change{
			At: *r.Xid, Kind: *r.Kind, Place: *r.Place, Shared: *r.Shared, Weight: *r.Weight, Limit: *r.Permit, Seen: seen,
		})
		if *r.Kind == history.Left {
			f.left[*r.Place] = seen
		}
	}
	f.read = read
}

// of returns the changes of a queue, including all that happened before the call.
func (f *feed) of(ctx context.Context, queue string) ([]history.Change, error) {
	if err := retry(ctx, f.next); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.queues[queue]), nil
}

// leftAt returns when a place was seen to be gone; 0 if it was not.
func (f *feed) leftAt(place int64) history.Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[place]
}

func (f *feed) close() {
	f.stop()
	<-f.done
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangup()
}

func now() history.Instant { return trial.Now() }

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
}
