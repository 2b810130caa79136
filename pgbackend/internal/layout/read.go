package layout

// read reads the entries from $3 to $4 and the nearest before them, or the first of a queue.
// The answer has at least one row, and the life in each. count reports a part of a queue.
//
// ($1 queue, $2 a place below which the queue has no entry, $3 from, $4 up to, $5 how many entries bigint, null for all).
const read = `
select ok.alive, e.place, e.session, e.mode, e.weight, e.marks, e.valued, $columns
from (select $alive as alive) ok left join lateral (
	(select * from $entry where queue = $1::text and place between $3::bigint and $4::bigint and place >= $2::bigint order by place
		limit case when $4 = 9223372036854775807 then $5::bigint end)
	union all
	(select * from $entry where queue = $1 and place < $3 and place >= $2 order by place desc limit $5)) e on true
order by e.place`

// ($1 queue, $2 a place below which it has no entry, $3 up to).
const count = `select count(*) from $entry where queue = $1::text and place >= $2::bigint and place <= $3::bigint`

// names reads the stored names of the queues with entries. Each step finds the next name by the
// index, so a queue of many entries costs as much as one of one. ($1 prefix, $2 behind the last).
const names = `
with recursive n as (
	(select queue from $entry where queue >= $1::text and queue < $2::text order by queue limit 1)
	union all
	select (select e.queue from $entry e where e.queue > n.queue and e.queue < $2 order by e.queue limit 1) from n where n.queue is not null)
select queue from n where queue is not null`
