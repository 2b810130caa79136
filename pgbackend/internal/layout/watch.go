package layout

// states reads what is watched. A target that is not an entry has a stamp, which differs from
// one seen before if the target has changed since. An entry's shows whether its data was written.
//
//	kind 0  an entry: its marks, null if it is gone, and how many entries are ahead of it, at most 4
//	kind 1  the entries of a queue that have the mark admitted, and the places of all that are ahead
//	        of a place: one that was marked and went between two looks differs from none
//	kind 2  a record
//	kind 3  all entries of a queue
//
// ($1 kinds smallint[], $2 queues text[], $3 places bigint[], $4 sessions bigint[], $5 records text[],
// $6 places below which the queues have no entry bigint[]).
const states = `
select $alive, r.i, e.marks, coalesce(e.changed, s.stamp, 0),
	(select count(*) from (select from $entry x where r.kind = 0 and x.queue = r.queue and x.place < r.place and x.place >= r.floor limit 4) near)
from unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
	with ordinality as r (kind, queue, place, session, record, floor, i)
left join lateral (select * from $entry x where r.kind = 0 and x.queue = r.queue and x.place = r.place and x.session is not distinct from r.session offset 0) e on true
left join lateral (
	select (sum(hashint8extended(x.place, case when r.kind = 3 or x.marks & 2 <> 0 then x.marks + 1024 * x.changed else 0 end))
			% 9223372036854775807)::bigint as stamp from $entry x
		where r.kind in (1, 3) and x.queue = r.queue and x.place >= r.floor and (r.kind = 3 or x.marks & 2 <> 0 or x.place < r.place)
	union all
	select x.version from $record x where r.kind = 2 and x.queue = r.queue and x.name = r.record) s on s.stamp is not null
order by r.i`

// watcher notes that a queue is watched by a client without an entry behind. A change of the
// queue that has not seen the row has committed before: both take the queue's lock. A renewal
// changes the row unless one did in the last 20 seconds, also if the clock of the server jumped.
// ($1 keys bigint[], in ascending order) is Lock; then ($1 queues text[]).
const watcher = `
insert into $watcher as w (queue, until) select q, now() + interval '1 minute' from unnest($1::text[]) as q where $alive
on conflict (queue) do update set until = excluded.until where w.until not between now() + interval '40 seconds' and now() + interval '1 minute'`

// observe reads the sessions that have entries or records in queues. ($1 queues text[], $2 floors
// bigint[]).
const observe = `
select s.id, s.version, s.ttl_ms from $session s where $alive and s.id in (
	select e.session from unnest($1::text[], $2::bigint[]) as q (queue, floor)
		cross join lateral (select x.session from $entry x where x.queue = q.queue and x.place >= q.floor offset 0) e
	union select session from $record where queue = any($1) and session is not null)`

// sweep reads all sessions of a root. ($1 root).
const sweep = `select id, version, ttl_ms from $session where root = $1::text and $alive`

// sweepWatchers reads the queues that are watched. The versions of their rows differ after each renewal.
const sweepWatchers = `select queue, ` + watcherVersion + ` from $watcher`

// endWatcher removes the row of a queue that has not been renewed since a look.
// ($1 queue, $2 its version).
const endWatcher = `delete from $watcher where queue = $1 and ` + watcherVersion + ` = $2::bigint`

const watcherVersion = `(extract(epoch from until) * 1000000)::bigint`

// A caller without a session leaves marks that no session takes with it.
const sweepDone = `delete from $done d where at < now() - interval '1 hour' and not exists (select from $session where id = d.session)`
