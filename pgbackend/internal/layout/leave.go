package layout

// leaveOne deletes an own entry, and notifies the watches of it if there is another client to notify.
// The answer has the marks of the entry, or no row if it was gone or the life is another one:
// leaveMany shows which. The clients that watch an entry have one behind it, or their watch has
// made a row in table watcher under the queue's lock. A row counts for as long as it is there: the
// clock of the server may jump, and sweep removes what no client renews. The session itself learns
// of it by this answer. PostgreSQL sends a notification once that a transaction makes twice. pg_notify is never null.
//
// It needs no fence. The transaction that ends a session deletes its entries after the fence, and
// waits for the lock of a row that is being deleted. So the session lived when the deletion of one
// of its entries was committed, and all its other entries were there. A statement that deletes
// several rows could wait for that transaction in a circle: leaveMany needs the fence.
//
// The statistics know only the rows that live, so each index looks equally cheap to the planner. The
// session is compared in a way that no index can serve: while a snapshot is open, the index of the
// sessions leads to all entries that the session has ever had. For the same reason the statements
// that join entries to arrays have a sub-select with "offset 0", which is looked up row by row.
//
// ($1 queue, $2 place, $3 session, $4 the channel of the queue, $5 first: 0 or 1).
func leaveOne(behind string) string {
	return `
delete from $entry e where queue = $1 and place = $2 and session is not distinct from $3 and $alive returning marks,
	case when ` + behind + ` then pg_notify($4::text || '_' || $2::bigint, 'g' || $5::smallint || marks) end is null,
	case when exists (select from $watcher where queue = $1)
		then pg_notify($4 || '_' || $2, 'g' || $5 || marks) is null or pg_notify($4, 'g' || $5 || marks) is null end is null`
}

// The conditions of leaveOne. With anyBehind it has the fewest steps, and an entry of the same
// session behind is enough. With othersBehind such entries are skipped, up to a bound.
const (
	anyBehind    = `exists (select from $entry where queue = $1 and place > $2)`
	othersBehind = `(select count(*) = 100 or count(*) filter (where session <> $3) > 0 from (
		select session from $entry where queue = $1 and place > $2 order by place limit 100) behind)`
)

// leaveMany is leaveOne for several entries, with changes of records. It has a row for each entry.
// An op is done if its entry was there, or if it is bound.
//
// ($1 session of the caller, $2 queues text[], $3 places bigint[], $4 sessions bigint[], $5 channels text[],
// $6 first smallint[], $7 notify in any case boolean[], $8 to $15 ops).
func leaveMany() string {
	return `
with ok as (select $alive as alive, exists (select from $member where id = $1::bigint) as member),
r as (select *, exists (select from $watcher w where w.queue = r.queue) as watched
	from unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::smallint[], $7::boolean[])
	with ordinality as r (queue, place, session, channel, first, always, i)),
gone as (delete from $entry e using ok, (select r.i, x.at from r cross join lateral (select x.ctid as at from $entry x
		where x.queue = r.queue and x.place = r.place and x.session is not distinct from r.session offset 0) x) t
	where alive and e.ctid = t.at returning t.i, e.marks),
o as materialized ` + ops(8) + `,
due as materialized (select o.* from o, ok where alive and met and (exists (select from gone where gone.i = o.q) or bound and member)),
gate as materialized (select $nextplace as place where exists (select from due where value is not null)),
put as (insert into $record as x (queue, name, value, version, session)
	select due.queue, due.name, due.value, gate.place, case when due.bound then $1::bigint end from due, gate
	where due.value is not null and not (due.kind = 2 and due.there)
	on conflict (queue, name) do update set value = excluded.value, version = excluded.version, session = excluded.session
	returning x.queue, x.name),
dropped as (delete from $record x using due where x.queue = due.queue and x.name = due.name and due.value is null
	returning x.queue, x.name),
told as (select count(pg_notify(r.channel, 'r' || t.name)) from (select * from put union all select * from dropped) t
	join r on r.queue = t.queue where r.watched)
select ok.alive, r.i, gone.marks, told.count,
	case when gone.marks is not null and (r.watched or r.always or exists (select from $entry e where e.queue = r.queue and e.place > r.place))
		then pg_notify(r.channel || '_' || r.place, 'g' || r.first || gone.marks) end is null,
	case when gone.marks is not null and r.watched then pg_notify(r.channel, 'g' || r.first || gone.marks) end is null
from ok cross join told cross join r left join gone on gone.i = r.i order by r.i`
}

// settleVoid refuses attempts of a join for good, also from a caller whose session is over.
const settleVoid = void

// settle deletes what attempts of a join have made, and the records that they have created.
// ($1 session, $2 calls bigint[], $3 queues text[], $4 the queues of records text[], $5 their names text[]).
const settle = `
with gone as (delete from $entry where session = $1::bigint and call = any($2::bigint[]) and queue = any($3::text[]) returning queue, place, marks),
dropped as (delete from $record x using gone, unnest($4::text[], $5::text[]) as t (queue, name)
	where x.queue = gone.queue and x.queue = t.queue and x.name = t.name and x.version = gone.place returning x.queue, x.name)
select count(pg_notify($channel(t.queue$) || t.suffix, t.what)) from (
	select queue, '_' || place as suffix, 'g0' || marks as what from gone union all
	select queue, '', 'g0' || marks from gone union all select queue, '', 'r' || name from dropped) t`
