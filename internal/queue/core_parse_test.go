package queue

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// ref is the entry with a place. Keys are used again.
func ref(place int64) driver.Ref {
	return driver.Ref{Queue: "n", Key: fmt.Sprint("k", place%3), Place: place}
}

// target is the target of a watch: holders, limit, or the place of an entry.
func target(name string) driver.Target {
	switch name {
	case "holders":
		return driver.Target{Kind: driver.OfHolders, Queue: "n"}
	case rule.RecordLimit:
		return driver.Target{Kind: driver.OfRecord, Queue: "n", Record: rule.RecordLimit}
	}
	place, _ := strconv.ParseInt(name, 10, 64)
	return ref(place).Target()
}

func targetName(t driver.Target) string {
	switch t.Kind {
	case driver.OfEntry:
		return fmt.Sprint(t.Ref.Place)
	case driver.OfHolders:
		return "holders"
	case driver.OfRecord:
		return t.Record
	case driver.OfQueue:
	}
	return "queue"
}

// event is the event of a line.
func event(words []string) driver.Event {
	ev := driver.Event{Kind: map[string]driver.EventKind{
		"armed": driver.Armed, "gone": driver.Gone, "changed": driver.Changed, "lost": driver.Lost,
	}[words[0]]}
	for _, w := range words[2:] {
		switch w {
		case "first":
			ev.First = true
		case "shared":
			ev.Marks = driver.MarkShared
		}
	}
	return ev
}

// view reads entries: a place each, with r for a reader, d for a writer that became one, f
// for another program's, u for one without a session, p for a permit, and * for the mark
// Admitted. 1f and 1fr are two entries. "..." in front means that there may be more, and
// "limit 3" behind that the view has the limit.
func view(t *testing.T, text string) driver.View {
	words := strings.Fields(text)
	v := driver.View{Complete: true, Count: -1}
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch word {
		case "...":
			v.Complete = false
			continue
		case rule.RecordLimit:
			i++
			v.Records = map[string]driver.Record{rule.RecordLimit: {Value: []byte(words[i]), Version: 1, Token: 1}}
			continue
		}
		kind := strings.TrimLeft(word, "0123456789")
		place, err := strconv.ParseInt(strings.TrimSuffix(word, kind), 10, 64)
		require.NoError(t, err, word)
		e := driver.Entry{Ref: ref(place)}
		for _, k := range kind {
			switch k {
			case 'f':
				e.Foreign = true
			case 'u':
				e.Unleased = true
			case 'r':
				if e.Mode = driver.Shared; e.Foreign { // another entry than 1f
					e.Key += "r"
				}
			case 'd':
				e.Marks = driver.MarkShared
			case 'p':
				e.Mode, e.Weight = driver.Weighted, 1
			case '*':
				e.Marks |= driver.MarkAdmitted
			default:
				require.Fail(t, "unknown kind of entry", word)
			}
		}
		v.Entries = append(v.Entries, e)
	}
	return v
}

// limitIn returns the limit that a record has, 0 if it has none.
func limitIn(r driver.Record) int64 {
	limit, _ := strconv.ParseInt(string(r.Value), 10, 64)
	return limit
}
