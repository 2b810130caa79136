package inspect

import (
	"time"

	"github.com/fairlock/fairlock/internal/schema"
)

// Changes are what has happened between two looks at lines, line by line in the
// order of names, and within a line in the order in which it can have happened:
// who has gone, who holds now, who has come closer, who is new. What came and went
// between the looks is not seen. Both must be sorted by name.
func Changes(before, now []schema.Line, at time.Time) []schema.Event {
	var all []schema.Event
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && before[0].Name < now[0].Name:
			all = append(all, changes(before[0], schema.NewLine(before[0].Name), at)...)
			before = before[1:]
		case len(before) == 0 || now[0].Name < before[0].Name:
			all = append(all, changes(schema.NewLine(now[0].Name), now[0], at)...)
			now = now[1:]
		default:
			all = append(all, changes(before[0], now[0], at)...)
			before, now = before[1:], now[1:]
		}
	}
	return all
}

// there are the entries of a line that were there when they were read, by their
// tokens: no two of a line have the same. An entry's key is not what it keeps: on
// ZooKeeper a writer that becomes a reader gets another, and on etcd keys are used
// again. An entry without a token was listed and had gone before it was read.
func there(l schema.Line) (entries []schema.Entry, byToken map[int64]schema.Entry) {
	byToken = make(map[int64]schema.Entry, len(l.Entries))
	for _, e := range l.Entries {
		if e.Token != 0 {
			entries = append(entries, e)
			byToken[e.Token] = e
		}
	}
	return entries, byToken
}

// changes are what has happened to one line.
func changes(before, now schema.Line, at time.Time) []schema.Event {
	entriesBefore, was := there(before)
	entriesNow, is := there(now)
	var all []schema.Event
	tell := func(event string, from int, e schema.Entry) {
		ev := schema.NewEvent(event, now.Name, at, e)
		ev.From = from
		all = append(all, ev)
	}
	for _, e := range entriesBefore {
		_, still := is[e.Token]
		switch {
		case still:
		case e.State == schema.Holder:
			tell(schema.Released, 0, e)
		default:
			tell(schema.Gone, 0, e)
		}
	}
	for _, e := range entriesNow {
		old, known := was[e.Token]
		switch {
		case e.State == schema.Holder && (!known || old.State != schema.Holder):
			tell(schema.Granted, 0, e)
		case !known:
			tell(schema.Queued, 0, e)
		case e.State == schema.Waiter && e.Place < old.Place:
			tell(schema.Moved, old.Place, e)
		}
	}
	return all
}
