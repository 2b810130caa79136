package layout

import "fmt"

// joinOne makes one entry and returns its place, or no row: then joinMany shows why not. It notifies
// clients that watch the queue as a whole. It has few steps, because nearly every join is one of
// these and nothing else.
//
// ($1 queue, $2 session, $3 call, $4 mode, $5 weight, $6 valued, $7 data, $8 detail).
const joinOne = `
insert into $entry (queue, place, session, call, mode, weight, valued, data, detail)
select $1::text, $nextplace, $2::bigint, $3::bigint, $4::smallint, $5::bigint, $6::boolean, $7::bytea, $8::bytea
where $alive and $isolated and exists (select from $member where id = $2) and not exists (select from $void where session = $2 and call = $3)
returning place, case when exists (select from $watcher where queue = $1) then pg_notify($channel($1::text$), 'j') end is null`

// ahead reads how many entries are ahead of the one that joinOne has made, and the nearest of
// them, a row each; no row means none. The queue's lock is held, so no entry is behind it. But the
// count must be of the same snapshot as the entries: the end of a session takes no queue's lock.
//
// ($1 queue, $2 a place below which it has no entry, $3 call, $4 how many entries bigint, null for all).
const ahead = `
select (select count(*) from $entry where queue = $1::text and place >= $2::bigint and call <> $3::bigint), place, session, mode, weight, marks, valued
from $entry where queue = $1 and place >= $2 and call <> $3 order by place desc limit $4::bigint`

// tryOne makes one entry in an empty queue, and notifies like joinOne. The answer has one row:
//
//	alive, isolated, member, refused   why no entry was made; true, true, true, false otherwise
//	place                              of the new entry, or null
//	count                              how many entries the queue has had
//	entry                              the first of them
//
// ($1 to $8 as for joinOne, $9 a place below which the queue has no entry).
const tryOne = `
with ok as (select $alive as alive, $isolated as isolated,
	exists (select from $member where id = $2) as member,
	exists (select from $void where session = $2 and call = $3) as refused),
mine as (insert into $entry (queue, place, session, call, mode, weight, valued, data, detail)
	select $1::text, $nextplace, $2::bigint, $3::bigint, $4::smallint, $5::bigint, $6::boolean, $7::bytea, $8::bytea from ok
	where alive and isolated and member and not refused and not exists (select from $entry where queue = $1 and place >= $9)
	returning place),
told as (select count(pg_notify($channel($1::text$), 'j')) from mine where exists (select from $watcher where queue = $1))
select ok.*, mine.place, (select count(*) from $entry where queue = $1 and place >= $9),
	a.place, a.session, a.mode, a.weight, a.marks, a.valued, a.data, a.detail
from ok cross join told left join mine on true left join lateral (
	select * from $entry where queue = $1 and place >= $9 order by place limit 1) a on true`

// A repeated join refuses its earlier attempts before it looks for what they have made. Both are
// done under the locks of the queues, which an attempt takes before it looks whether it is
// refused. ($1 session, $2 calls bigint[]).
const void = `
insert into $void (session, call) select $1, c from unnest($2::bigint[]) as c where exists (select from $member where id = $1) on conflict do nothing`

// partial deletes what an earlier attempt has made, if some of its entries have been deleted
// meanwhile: then the repeated join makes all of them anew.
// ($1 session, $2 calls bigint[], $3 queues text[]).
const partial = `
with old as (select queue, place from $entry where session = $1::bigint and call = any($2::bigint[]) and queue = any($3::text[])),
gone as (delete from $entry e using old where e.queue = old.queue and e.place = old.place
	and (select count(*) from old) < cardinality($3::text[]) returning e.queue, e.place, e.marks)
select pg_notify($channel(queue$) || '_' || place, 'g0' || marks) from gone`

// ops are the changes of records that a request carries, and whether their conditions hold: an
// SQL expression over the queues in r. first is the number of the first of eight parameters.
// The kinds of conditions are those of the contract, in its order.
//
// ($first places in r smallint[], names text[], kinds smallint[], values of conditions bytea[],
// versions bigint[], values bytea[], bound boolean[], optional boolean[]).
func ops(first int) string {
	types := []any{"smallint", "text", "smallint", "bytea", "bigint", "bytea", "boolean", "boolean"}
	for i, t := range types {
		types[i] = fmt.Sprintf("$%d::%s[]", first+i, t)
	}
	return fmt.Sprintf(`(
	select o.*, r.queue, x.value as was, x.version as at, x.name is not null as there, case o.kind
		when 0 then x.name is null
		when 1 then x.value = o.wanted
		when 2 then x.name is null or x.value = o.wanted
		else x.version = o.version end is true as met
	from unnest(%s, %s, %s, %s, %s, %s, %s, %s) with ordinality as o (q, name, kind, wanted, version, value, bound, optional, i)
	join r on r.i = o.q left join $record x on x.queue = r.queue and x.name = o.name)`, types...)
}

// joinMany makes entries in several queues, with conditions and changes of records. Own reads
// what it has made. Its answer has at least one row, and one for each op.
//
// ($1 session, $2 call, $3 earlier calls bigint[], $4 queues text[], $5 modes smallint[], $6 weights
// bigint[], $7 valued boolean[], $8 data bytea[], $9 details bytea[], $10 if empty boolean[],
// $11 places below which the queues have no entry bigint[], $12 to $19 ops).
func joinMany() string {
	return `
with ok as (select $alive as alive, $isolated as isolated,
	exists (select from $member where id = $1) as member,
	exists (select from $void where session = $1 and call = $2) as refused),
r as (select * from unnest($4::text[], $5::smallint[], $6::bigint[], $7::boolean[], $8::bytea[], $9::bytea[], $10::boolean[], $11::bigint[])
	with ordinality as r (queue, mode, weight, valued, data, detail, empty, floor, i)),
old as (select e.place from r cross join lateral (select x.place from $entry x
	where x.queue = r.queue and x.place >= r.floor and x.session is not distinct from $1 and x.call = any($3::bigint[]) offset 0) e),
o as materialized ` + ops(12) + `,
taken as (select min(i) as i from r where empty and exists (select from $entry e where e.queue = r.queue and e.place >= r.floor offset 0)),
gate as materialized (select $nextplace as place from ok, taken
	where alive and isolated and member and not refused and taken.i is null and not exists (select from old)
	and not exists (select from o where not met and not optional)),
mine as (insert into $entry (queue, place, session, call, mode, weight, valued, data, detail)
	select r.queue, gate.place, $1, $2, r.mode, r.weight, r.valued, r.data, r.detail from r, gate),
put as (insert into $record as x (queue, name, value, version, session)
	select o.queue, o.name, o.value, gate.place, case when o.bound then $1::bigint end from o, gate
	where o.met and o.value is not null and not (o.kind = 2 and o.there)
	on conflict (queue, name) do update set value = excluded.value, version = excluded.version, session = excluded.session
	returning x.queue, x.name),
dropped as (delete from $record x using o, gate where x.queue = o.queue and x.name = o.name and o.met and o.value is null
	returning x.queue, x.name),
told as (select count(pg_notify($channel(t.queue$), t.what)) from (
	select queue, 'j' as what from r union all select queue, 'r' || name from put union all select queue, 'r' || name from dropped) t
	where exists (select from gate) and exists (select from $watcher w where w.queue = t.queue))
select ok.*, (select min(place) from old), taken.i, gate.place, o.i, o.met, o.there, o.was, o.at, told.count
from ok cross join taken cross join told left join gate on true left join o on true order by o.i`
}

// own reads the entries of this session that a join has made, and what is ahead of each. A
// queue without one shows its first entry: it was not empty.
//
// ($1 session, $2 calls bigint[], $3 queues text[], $4 floors bigint[], $5 how many entries bigint[], null for all).
const own = `
select r.i, mine.place, (select count(*) from $entry e where e.queue = r.queue and e.place >= r.floor and (mine.place is null or e.place < mine.place)),
	a.place, a.session, a.mode, a.weight, a.marks, a.valued, a.data, a.detail
from unnest($3::text[], $4::bigint[], $5::bigint[]) with ordinality as r (queue, floor, nearest, i)
left join lateral (select place from $entry e where e.queue = r.queue and e.place >= r.floor and e.session is not distinct from $1 and e.call = any($2::bigint[]) offset 0) mine on true
left join lateral (
	(select e.place, e.session, e.mode, e.weight, e.marks, e.valued, null::bytea as data, null::bytea as detail
	 from $entry e where mine.place is not null and e.queue = r.queue and e.place >= r.floor and e.place < mine.place order by e.place desc limit r.nearest)
	union all
	(select e.place, e.session, e.mode, e.weight, e.marks, e.valued, e.data, e.detail
	 from $entry e where mine.place is null and e.queue = r.queue and e.place >= r.floor order by e.place limit 1)) a on true
order by r.i, a.place`

// records reads records of queues. A name that ends in a slash stands for all that begin with it.
// ($1 queues text[], $2 names text[]).
const records = `
select q.i, x.name, x.value, x.version from unnest($1::text[], $2::text[]) with ordinality as q (queue, name, i)
join $record x on x.queue = q.queue and (x.name = q.name or right(q.name, 1) = '/' and starts_with(x.name, q.name)) order by q.i, x.name`
