package layout

// memberRow makes the fence of a session, before its other row. ($1 session).
const memberRow = `
insert into $member (id) select $1::bigint where $alive and $durable and $patient on conflict do nothing`

// openSession makes the session. A repeated one writes too: its commit waits for the standbys
// that the first one has waited for. It returns no row where the life or the greatest TTL is
// another one. ($1 session, $2 root, $3 TTL in ms).
const openSession = `
insert into $session as s (id, root, ttl_ms) select $1::bigint, $2::text, $3::bigint
where $alive and exists (select from $member where id = $1) and exists (select from $meta where max_ttl_ms >= $3)
on conflict (id) do update set version = s.version + 1, renewed = clock_timestamp() returning version`

// renew returns no row if the session is over. ($1 session).
const renew = `
update $session set version = version + 1, renewed = clock_timestamp() where id = $1 and $alive and $durable and $patient returning version`

// A session is ended by four statements of one transaction. The second waits for the joins of
// the session that are under way, and the third has a later snapshot: it sees what they made.
// Each does nothing unless those before it have done their part. The last shows whether they have.

// endSession deletes the row of the session if it was not renewed since its version was seen.
// ($1 session, $2 version; 0 for any).
const endSession = `
delete from $session where id = $1::bigint and ($2::bigint = 0 or version = $2) and $alive and $durable and $patient`

// ($1 session).
const endMember = `delete from $member where id = $1::bigint and not exists (select from $session where id = $1)`

// endRest deletes what the session has kept, and returns whether the session is over. ($1 session).
const endRest = `
with ok as (select not exists (select from $member where id = $1::bigint) as over),
gone as (delete from $entry e using ok where over and e.session = $1 returning e.queue, e.place, e.marks),
dropped as (delete from $record x using ok where over and x.session = $1 returning x.queue, x.name),
void as (delete from $void x using ok where over and x.session = $1),
done as (delete from $done x using ok where over and x.session = $1),
told as (select count(pg_notify($channel(t.queue$) || t.suffix, t.what)) from (
	select queue, '_' || place as suffix, 'g0' || marks as what from gone union all
	select queue, '', 'g0' || marks from gone union all select queue, '', 'r' || name from dropped) t)
select ok.over, told.count from ok, told`

// endKept returns a row if the session is there although endSession should have deleted it: a policy
// or a trigger of the table has kept it, which is no error of that statement. ($1 session, $2 version; 0 for any).
const endKept = `
select from $session where id = $1::bigint and ($2::bigint = 0 or version = $2) and $alive`

// guard is one row: whether all these entries are there, kept until the transaction ends.
// ($1 queues text[], $2 places bigint[], $3 sessions bigint[]).
const guard = `
select count(*) = cardinality($1::text[]) and $alive from (
	select e.place from unnest($1::text[], $2::bigint[], $3::bigint[]) as r (queue, place, session) cross join lateral (
		select x.place from $entry x where x.queue = r.queue and x.place = r.place and x.session is not distinct from r.session for key share) e) held`
