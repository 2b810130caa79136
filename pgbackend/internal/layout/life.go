package layout

import "strings"

// on is an SQL condition: the server that runs the statement has this life.
func (l Life) on() string {
	return `(` + timeline + ` = ` + literal(l.Timeline) + ` and (` + started + ` = ` + itoa(l.Started) + ` or ` + system + ` = ` + literal(l.System) + `))`
}

// is is an SQL condition: so has the store, of which meta is the table.
func (l Life) is(meta string) string {
	return `(` + l.on() + ` and exists (select from ` + meta + ` where life = ` + literal(l.String()) + `))`
}

// Examine reads the life of the server and of the store, and the settings that what the store
// keeps depends on. It has one row, with nulls for the columns of meta if that is empty.
func (l Layout) Examine() string {
	return `select pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version_num')::integer, current_setting('server_encoding'),
	current_setting('fsync'), current_setting('synchronous_standby_names'),
	` + system + `, case when pg_is_in_recovery() then '' else ` + timeline + ` end, ` + started + `,
	m.layout, m.life, m.claim, m.max_ttl_ms, m.secret
from (select) one left join ` + l.Table("meta") + ` m on true`
}

// Claim writes a claim of a life, unless another one is there than the one that was seen. It
// makes the row of an emptied table. ($1 claim, $2 the claim that was seen or null, $3 the
// greatest TTL in ms, for a row that is missing).
func (l Layout) Claim(life Life) string {
	return `insert into ` + l.Table("meta") + ` as m (layout, life, claim, max_ttl_ms)
select ` + itoa(Version) + `, '', $1::text, $3::bigint where ` + life.on() + ` and ` + durable + `
on conflict (one) do update set claim = excluded.claim where m.claim is not distinct from $2::text and m.life <> ` + literal(life.String())
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
with blessed as (update $meta set life = $life, claim = null where claim = $1::text and $on and $durable returning max_ttl_ms),
session as (delete from $session using blessed),
member as (delete from $member using blessed),
entry as (delete from $entry using blessed),
record as (delete from $record x using blessed where x.session is not null),
void as (delete from $void using blessed),
done as (delete from $done using blessed)
select setval($seq, greatest((select last_value from $place), $now) + 1000 * max_ttl_ms) from blessed`)
}

// durable is true. synchronous_commit is set with it because a role or database may have it off,
// and then a crash takes back what was answered, in the same life.
const durable = `set_config('synchronous_commit', 'on', true) is not null`
