package pgbackend

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
)

// Report is what Examine has found out about one server. What the login may not read is zero, and
// Hidden has the reason.
type Report struct {
	Version string // of PostgreSQL, as "15.18"
	Standby bool   // it replicates another server; most of the rest is about primaries
	System  string // the system identifier, which a primary and its standbys share
	Pooled  bool   // a pooler is between, which lends a server connection for a transaction
	TLS     string // the version, as "TLS 1.3"; "" without TLS
	Listens bool   // a notification came within a second

	// Clock is how far the server's clock is ahead of this machine's, and Within how exactly that
	// is known.
	Clock, Within time.Duration

	Connections, MaxConnections int

	// The settings that what the server keeps depends on. SynchronousCommit is the default of the
	// login, which the backend overrides.
	Fsync, FullPageWrites, SynchronousCommit, Autovacuum bool
	SynchronousStandbyNames                              string

	// Standbys are the connected ones. Copies is how many standbys could be promoted: the connected
	// ones, or if that is more, those with a replication slot, or those that
	// SynchronousStandbyNames names. Awaited is for how many of them each commit waits.
	Standbys        []Standby
	Copies, Awaited int

	// OldestTransaction is the age of the oldest transaction in this database, which keeps all rows
	// that were deleted since; OldestBy is what it names itself.
	OldestTransaction time.Duration
	OldestBy          string

	Schema string
	Layout int // the version of the tables, 0 if there are none
	MaxTTL time.Duration

	// Life is the incarnation of the server's data, and Stored the one in which the tables were
	// declared whole. Where they differ, nothing is granted until programs that try to lock have
	// waited for the greatest TTL together: Counted is for how long they have.
	Life, Stored string
	Counted      time.Duration

	Sessions, Stale, Queues, Entries, Records int // Stale: sessions not renewed for three TTLs
	DeadRows                                  int // of the tables: vacuum has not removed them yet
	DeadIn                                    string
	Size                                      int64 // of the tables and indexes, in bytes

	// Missing are the privileges that a program which locks needs and the login has not, as
	// "UPDATE on entry".
	Missing []string

	Hidden []string
}

// Standby is a connected standby, as pg_stat_replication shows it to those who may see it.
type Standby struct {
	Name, Address, State, Sync string
	Behind                     time.Duration // until the newest commit is on its disk
}

// Examine examines a server and the tables in a schema ("" means DefaultSchema): for tools that
// report what is wrong, and what the server keeps of the promises of a lock. conn is a connection
// to that server, which Examine uses alone; it listens for a moment. Examine changes nothing. Its
// error means that the connection broke or that ctx ended.
func Examine(ctx context.Context, conn *pgx.Conn, schema string) (Report, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	e := examiner{conn: conn, layout: layout.Layout{Schema: schema}}
	e.Schema = schema
	if secure, ok := conn.PgConn().Conn().(*tls.Conn); ok {
		e.TLS = tls.VersionName(secure.ConnectionState().Version)
	}
	for _, step := range []func(context.Context) error{e.server, e.replication, e.activity, e.tables, e.contents, e.privileges, e.listens} {
		if err := step(ctx); err != nil {
			return e.Report, fmt.Errorf("pgbackend: examine: %w", err)
		}
	}
	return e.Report, nil
}

type examiner struct {
	Report
	conn   *pgx.Conn
	layout layout.Layout
}

// row reads one row. An error of the server is no error: what then stays zero is Hidden.
func (e *examiner) row(ctx context.Context, what, sql string, args []any, into ...any) error {
	err := e.conn.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(into...)
	return e.hidden(what, err)
}

func (e *examiner) hidden(what string, err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		e.Hidden = append(e.Hidden, what+": "+server.Message)
		return nil
	}
	return err
}

// server reads what every login may read. The clock comes first, on a connection that is idle.
func (e *examiner) server(ctx context.Context) error {
	var now time.Time
	began := time.Now()
	if err := e.row(ctx, "clock", `select clock_timestamp()`, nil, &now); err != nil {
		return err
	}
	e.Within = time.Since(began) / 2
	e.Clock = now.Sub(began.Add(e.Within))
	var pid uint32
	err := e.row(ctx, "settings", `select split_part(current_setting('server_version'), ' ', 1), pg_is_in_recovery(), pg_backend_pid(),
		current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit') not in ('off', 'local', 'remote_write'),
		current_setting('autovacuum') = 'on', current_setting('synchronous_standby_names'), current_setting('max_connections')::integer,
		(select count(*) from pg_stat_activity where backend_type = 'client backend')`, nil,
		&e.Version, &e.Standby, &pid, &e.Fsync, &e.FullPageWrites, &e.SynchronousCommit, &e.Autovacuum, &e.SynchronousStandbyNames, &e.MaxConnections, &e.Connections)
	e.Pooled = pid != e.conn.PgConn().PID()
	return err
}

// replication reads what the server's copies are. A login without pg_read_all_stats sees how many
// there are, and nothing else.
func (e *examiner) replication(ctx context.Context) error {
	if e.Standby {
		return nil
	}
	rows, err := e.conn.Query(ctx, `select coalesce(r.application_name, ''), coalesce(host(r.client_addr), ''), coalesce(r.state, ''), coalesce(r.sync_state, ''),
		coalesce(extract(epoch from r.flush_lag), 0)::float8
	from pg_stat_replication r left join pg_replication_slots s on s.active_pid = r.pid
	where s.slot_type is distinct from 'logical' and coalesce(r.state, '') <> 'backup'
		and coalesce(r.application_name, '') not in ('pg_receivewal', 'pg_basebackup')
	order by r.pid`, pgx.QueryExecModeExec)
	if err == nil {
		e.Standbys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Standby, err error) {
			var lag float64
			err = row.Scan(&s.Name, &s.Address, &s.State, &s.Sync, &lag)
			s.Behind = time.Duration(lag * float64(time.Second))
			return s, err
		})
	}
	if err := e.hidden("standbys", err); err != nil {
		return err
	}
	var slots int
	own := ""
	err = e.row(ctx, "replication slots", `select (select count(*) from pg_replication_slots where slot_type = 'physical'), current_setting('cluster_name')`, nil, &slots, &own)
	awaited, named := awaits(e.SynchronousStandbyNames, own)
	e.Copies, e.Awaited = max(len(e.Standbys), slots, named), awaited
	return err
}

// activity reads what keeps deleted rows.
func (e *examiner) activity(ctx context.Context) error {
	if e.Standby {
		return nil
	}
	var seconds float64
	err := e.row(ctx, "transactions", `select extract(epoch from age)::float8, by from (
		select clock_timestamp() - xact_start as age, coalesce(nullif(application_name, ''), usename, '') as by from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null and backend_type = 'client backend'
		union all
		select clock_timestamp() - prepared, 'prepared transaction ' || gid from pg_prepared_xacts where database = current_database()
		union all
		select interval '0', '') all_of_them
	order by age desc limit 1`, nil, &seconds, &e.OldestBy)
	e.OldestTransaction = time.Duration(seconds * float64(time.Second))
	return err
}

// tables reads the life of the server and of the tables.
func (e *examiner) tables(ctx context.Context) error {
	if err := e.row(ctx, "system identifier", `select system_identifier::text from pg_control_system()`, nil, &e.System); err != nil {
		return err
	}
	there := false
	err := e.row(ctx, "tables", `select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = 'meta')`,
		[]any{e.Schema}, &there)
	if err != nil || !there {
		return err
	}
	var x examination
	err = e.row(ctx, "tables", e.layout.Examine(), nil, x.columns()...)
	if x.layout != nil {
		e.Layout = *x.layout
		e.MaxTTL = x.ttl()
	}
	if x.life.Timeline != "" {
		e.Life = x.life.String()
	}
	e.Stored = deref(x.stored)
	if x.claim != nil && x.sum != nil {
		e.Counted = time.Duration(*x.sum) * time.Millisecond
	}
	return err
}

// contents counts.
func (e *examiner) contents(ctx context.Context) error {
	if e.Layout == 0 {
		return nil
	}
	session, entry, record := e.layout.Table("session"), e.layout.Table("entry"), e.layout.Table("record")
	err := e.row(ctx, "contents", `select (select count(*) from `+session+`),
		(select count(*) from `+session+` where renewed < clock_timestamp() - 3 * ttl_ms * interval '1 millisecond'),
		(select count(distinct queue) from `+entry+`), (select count(*) from `+entry+`), (select count(*) from `+record+`)`, nil,
		&e.Sessions, &e.Stale, &e.Queues, &e.Entries, &e.Records)
	if err != nil {
		return err
	}
	return e.row(ctx, "sizes", `select coalesce(sum(n_dead_tup), 0)::bigint, coalesce((array_agg(relname order by n_dead_tup desc))[1], '')::text,
		coalesce(sum(pg_total_relation_size(relid)), 0)::bigint from pg_stat_user_tables where schemaname = $1`, []any{e.Schema}, &e.DeadRows, &e.DeadIn, &e.Size)
}

// needed are the privileges of a program that locks, by table; place is the sequence.
func needed() map[string]string {
	return map[string]string{
		"meta": "SELECT INSERT UPDATE", "session": "SELECT INSERT UPDATE DELETE", "member": "SELECT INSERT UPDATE DELETE",
		"entry": "SELECT INSERT UPDATE DELETE", "record": "SELECT INSERT UPDATE DELETE", "void": "SELECT INSERT DELETE",
		"done": "SELECT INSERT DELETE", "watcher": "SELECT INSERT UPDATE DELETE", "place": "SELECT UPDATE",
	}
}

// privileges reads what the login may not do. A login that may not enter the schema has no other
// privilege there.
func (e *examiner) privileges(ctx context.Context) error {
	var names, wanted []string
	for _, table := range slices.Sorted(maps.Keys(needed())) {
		for privilege := range strings.FieldsSeq(needed()[table]) {
			names, wanted = append(names, table), append(wanted, privilege)
		}
	}
	rows, err := e.conn.Query(ctx, `select 'USAGE on schema ' || n.nspname from pg_namespace n where n.nspname = $1 and not has_schema_privilege(n.oid, 'USAGE')
	union all
	select w.privilege || ' on ' || c.relname from unnest($2::text[], $3::text[]) w (name, privilege)
		join pg_class c on c.relname = w.name join pg_namespace n on n.oid = c.relnamespace
	where n.nspname = $1 and not case c.relkind when 'S' then has_sequence_privilege(c.oid, w.privilege) else has_table_privilege(c.oid, w.privilege) end`,
		pgx.QueryExecModeExec, e.Schema, names, wanted)
	if err == nil {
		e.Missing, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return e.hidden("privileges", err)
}

// listens finds out whether notifications arrive. Behind some poolers LISTEN succeeds, and they do
// not. There a notification to oneself may arrive, so another connection sends it.
func (e *examiner) listens(ctx context.Context) error {
	if e.Standby {
		return nil
	}
	name := pgx.Identifier{"fl_examine_" + rand.Text()}.Sanitize()
	if _, err := e.conn.Exec(ctx, "listen "+name, pgx.QueryExecModeExec); err != nil {
		return e.hidden("LISTEN", err)
	}
	from := e.conn
	if e.Pooled {
		config := e.conn.Config()
		config.OnNotification = nil // it is that of e.conn
		other, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return e.hidden("a second connection", err)
		}
		defer call.Hangup(other) //nolint:contextcheck // it bounds itself
		from = other
	}
	if _, err := from.Exec(ctx, "notify "+name, pgx.QueryExecModeExec); err != nil {
		return e.hidden("NOTIFY", err)
	}
	waiting, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	_, err := e.conn.WaitForNotification(waiting)
	e.Listens = err == nil
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return nil // it has not come, and the connection may be closed now
	}
	_, err = e.conn.Exec(ctx, "unlisten "+name, pgx.QueryExecModeExec)
	return e.hidden("UNLISTEN", err)
}
