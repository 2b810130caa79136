package layout

// update changes an own entry and records of its queue. It has one row, and one for each op:
//
//	alive, member    whether the session lives
//	done             an earlier attempt of this call was carried out
//	there            the entry is there
//	version          of the records that were written; null if nothing was done
//
// A change with ops leaves a mark in table done, which a later one of the session deletes: a
// call that is sent again finds it, also after others have changed the records.
//
// ($1 session, $2 whether it must live, $3 call, $4 queue, $5 place or 0, $6 marks, $7 data, $8 detail,
// $9 number of the change, which rises in the process, $10 channel, $11 calls to be forgotten bigint[], $12 to $19 ops).
func update() string {
	return `
with ok as (select $alive as alive, not $2::boolean or exists (select from $member where id = $1::bigint) as member,
	exists (select from $done where session = $1::bigint and call = $3::bigint) as done,
	exists (select from $watcher where queue = $4::text) as watched),
r as (select $4::text as queue, 1 as i),
e as (select * from $entry where queue = $4::text and place = $5::bigint and session is not distinct from $1::bigint),
o as materialized ` + ops(12) + `,
gate as materialized (select case when exists (select from o) then $nextplace else 0 end as version from ok
	where alive and member and not done and ($5::bigint = 0 or exists (select from e)) and not exists (select from o where not met and not optional)),
changed as (update $entry x set marks = x.marks | $6::smallint,
		data = case when $7::bytea is not null and $9::bigint > x.wrote then $7::bytea else x.data end,
		detail = case when $8::bytea is not null and $9::bigint > x.wrote then $8::bytea else x.detail end,
		wrote = case when $7::bytea is null and $8::bytea is null then x.wrote else greatest(x.wrote, $9::bigint) end,
		changed = case when $7::bytea is not null and $9::bigint > x.wrote then $9::bigint else x.changed end
	from gate, e where x.queue = $4::text and x.place = $5::bigint and ($6::smallint <> 0 or $7::bytea is not null or $8::bytea is not null)
	returning x.marks, x.changed, x.marks <> e.marks or x.changed <> e.changed as seen),
put as (insert into $record as x (queue, name, value, version, session)
	select o.queue, o.name, o.value, gate.version, case when o.bound then $1::bigint end from o, gate
	where o.met and o.value is not null and not (o.kind = 2 and o.there)
	on conflict (queue, name) do update set value = excluded.value, version = excluded.version, session = excluded.session
	returning x.queue, x.name),
dropped as (delete from $record x using o, gate where x.queue = o.queue and x.name = o.name and o.met and o.value is null
	returning x.queue, x.name),
mark as (insert into $done (session, call) select $1::bigint, $3::bigint from gate where version > 0),
forgotten as (delete from $done where session = $1::bigint and call = any($11::bigint[])),
told as (select count(pg_notify(t.channel, t.what)) from ok, (
	select $10::text || '_' || $5::bigint as channel, 'c0' || marks || ',' || changed as what, false as wide from changed where seen union all
	select $10::text, 'c0' || marks || ',' || changed, true from changed where seen union all
	select $10::text, 'r' || name, true from put union all select $10::text, 'r' || name, true from dropped) t
	where watched or not wide)
select ok.alive, ok.member, ok.done, exists (select from e), gate.version, told.count,
	o.i, o.met, o.there, o.was, o.at
from ok cross join told left join gate on true left join o on true order by o.i`
}
