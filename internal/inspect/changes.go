package inspect

import (
	"time"

	"github.com/fairlock/fairlock/internal/schema"
)

// Changes returns what has happened between two readings of queues, in the order of
// names. Within a queue the order is one in which it can have happened: entries that
// have ended, then new holders, waiters that have moved, and new waiters. An entry
// that came and ended between the readings is not seen. Both slices must be sorted
// by name.
func Changes(before, now []schema.Queue, at time.Time) []schema.Event {
	var all []schema.Event
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && before[0].Name < now[0].Name:
			all = append(all, changes(before[0], schema.NewQueue(before[0].Name), at)...)
			before = before[1:]
		case len(before) == 0 || now[0].Name < before[0].Name:
			all = append(all, changes(schema.NewQueue(now[0].Name), now[0], at)...)
			now = now[1:]
		default:
			all = append(all, changes(before[0], now[0], at)...)
			before, now = before[1:], now[1:]
		}
	}
	return all
}

// present returns the entries of a queue that existed when they were read, in order
// and by token. Tokens identify them, because no two entries of a queue have the
// same one; keys do not, because a session on etcd uses them again. An entry without a
// token was listed, and ended before it was read, or the login may not read it.
func present(q schema.Queue) (entries []schema.Entry, byToken map[int64]schema.Entry) {
	byToken = make(map[int64]schema.Entry, len(q.Entries))
	for _, e := range q.Entries {
		if e.Token != 0 {
			entries = append(entries, e)
			byToken[e.Token] = e
		}
	}
	return entries, byToken
}

// changes returns what has happened to one queue.
func changes(before, now schema.Queue, at time.Time) []schema.Event {
	entriesBefore, was := present(before)
	entriesNow, is := present(now)
	var all []schema.Event
	add := func(event string, from int, e schema.Entry) {
		ev := schema.NewEvent(event, now.Name, at, e)
		ev.From = from
		all = append(all, ev)
	}
	for _, e := range entriesBefore {
		_, still := is[e.Token]
		switch {
		case still:
		case e.State == schema.Holder:
			add(schema.Released, 0, e)
		default:
			add(schema.Gone, 0, e)
		}
	}
	for _, e := range entriesNow {
		old, known := was[e.Token]
		switch {
		case e.State == schema.Holder && (!known || old.State != schema.Holder):
			add(schema.Granted, 0, e)
		case !known:
			add(schema.Queued, 0, e)
		case e.State == schema.Waiter && e.Place < old.Place:
			add(schema.Moved, old.Place, e)
		}
	}
	return all
}
