package layout

import (
	"strings"
	"time"
)

// on is an SQL condition: the server that runs the statement has this life.
func (l Life) on() string {
	return `(` + timeline + ` = ` + literal(l.Timeline) + ` and (pg_postmaster_start_time() = ` + l.start() + ` or ` + system + ` = ` + literal(l.System) + `))`
}

// start is when the server process started, as a constant of SQL. Statements compare it as it is:
// the arithmetic of started would take longer than all the rest of the condition.
func (l Life) start() string {
	return literal(time.UnixMicro(l.Started).UTC().Format("2006-01-02 15:04:05.999999+00")) + `::timestamptz`
}

// is is an SQL condition: so has the store, of which meta is the table.
func (l Life) is(meta string) string {
	return `(` + l.on() + ` and exists (select from ` + meta + ` where life = ` + literal(l.String()) + `))`
}

// Examine reads the life of the server and of the store, and the settings that what the store
// keeps depends on. It has one row, with nulls for the columns of meta if that is empty.
func (l Layout) Examine() string {
	return `select pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version_num')::integer, current_setting('server_encoding'),
	current_setting('fsync'), current_setting('synchronous_standby_names'), current_setting('default_transaction_isolation'),
	` + system + `, case when pg_is_in_recovery() then '' else ` + timeline + ` end, ` + started + `,
	m.layout, m.life, m.since, m.claim, m.counted_ms, m.max_ttl_ms, m.secret
from (select) one left join ` + l.Table("meta") + ` m on true`
}

// Claim writes a new claim of a life, unless another one is there than the one that was seen. It
// makes the row of an emptied table. No claim is sent twice: one that arrives late, after the
// table was emptied, would bring back a claim that others have counted.
// ($1 claim, $2 the claim that was seen or null, $3 the greatest TTL in ms, for a row that is missing).
func (l Layout) Claim(life Life) string {
	return `insert into ` + l.Table("meta") + ` as m (layout, life, claim, max_ttl_ms)
select ` + itoa(Version) + `, '', $1::text, $3::bigint where ` + life.on() + ` and ` + durable + `
on conflict (one) do update set claim = excluded.claim, counted_ms = 0
where m.claim is not distinct from $2::text and m.life <> ` + literal(life.String())
}

// Keep writes a claim that is there again, so that a commit shows that the server can still write.
// ($1 claim).
func (l Layout) Keep(life Life) string {
	return `update ` + l.Table("meta") + ` set claim = claim where claim = $1::text and ` + life.on() + ` and ` + durable
}

// Count adds to the time for which a claim was counted, if no other client has added to it since
// it was read. So the times that are added do not overlap, and their sum is no longer than the
// claim is old. ($1 claim, $2 what is added in ms, $3 the sum that was read).
func (l Layout) Count(life Life) string {
	return `update ` + l.Table("meta") + ` set counted_ms = counted_ms + $2::bigint
where claim = $1::text and counted_ms = $3::bigint and ` + life.on() + ` and ` + durable
}

// Bless declares the store whole in a life, if it has the claim: what sessions of before have
// kept goes, and places go on above all that the old life can have given. The clock of another
// server may be behind by the greatest TTL. It returns no row where it did nothing. ($1 claim)
//
// No entry can come meanwhile: whatever makes one compares the life that is changed here.
func (l Layout) Bless(life Life) string {
	r := strings.NewReplacer("$meta", l.Table("meta"), "$session", l.Table("session"), "$member", l.Table("member"), "$entry", l.Table("entry"),
		"$record", l.Table("record"), "$void", l.Table("void"), "$done", l.Table("done"), "$place", l.Table("place"), "$seq", l.sequence(),
		"$now", now, "$life", literal(life.String()), "$on", life.on(), "$durable", durable)
	return r.Replace(`
with blessed as (update $meta set life = $life, claim = null, counted_ms = 0,
	since = greatest((select last_value from $place), $now) + 1000 * max_ttl_ms
	where claim = $1::text and $on and $durable returning since),
session as (delete from $session using blessed),
member as (delete from $member using blessed),
entry as (delete from $entry using blessed),
record as (delete from $record x using blessed where x.session is not null),
void as (delete from $void using blessed),
done as (delete from $done using blessed)
select setval($seq, since) from blessed`)
}

// durable is true. synchronous_commit is set with it because a role or database may have it off,
// and then a crash takes back what was answered, in the same life.
const durable = `set_config('synchronous_commit', 'on', true) is not null`
