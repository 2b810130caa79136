package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/schema"
)

// queues makes queues of "a: 1+ 2- x-": a name, and tokens with + for a holder. x is
// an entry without a token.
func queues(text string) []schema.Queue {
	var all []schema.Queue
	for part := range strings.SplitSeq(text, ";") {
		name, entries, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			continue
		}
		q := schema.NewQueue(name)
		for i, word := range strings.Fields(entries) {
			e := schema.Entry{Place: i + 1, State: schema.Waiter, Mode: "exclusive"}
			if strings.HasSuffix(word, "+") {
				e.State = schema.Holder
			}
			_, _ = fmt.Sscan(word[:len(word)-1], &e.Token)
			q.Entries = append(q.Entries, e)
		}
		all = append(all, q)
	}
	return all
}

func TestChangesAreInAnOrderInWhichTheyCanHaveHappened(t *testing.T) {
	for _, c := range []struct{ before, now, want string }{
		{"", "", ""},
		{"", "a: 1+ 2-", "granted a 1, queued a 2"},
		{"a: 1+ 2-", "a: 1+ 2-", ""},
		{"a: 1+ 2- 3-", "a: 2+ 3-", "released a 1, granted a 2, moved a 3 from 3"},
		{"a: 1+ 2- 3-", "a: 1+ 3-", "gone a 2, moved a 3 from 3"},
		{"a: 1+ 2- 3-", "a: 1+ 2- 3- 4-", "queued a 4"},
		{"a: 1+", "a: 7+", "released a 1, granted a 7"},
		{"a: 1+ 2- 3-", "a: 1+ 2+ 3+", "granted a 2, granted a 3"}, // it became a reader
		{"a: 1+", "b: 2+", "released a 1, granted b 2"},
		{"b: 1+", "a: 2+; b: 1+; c: 3+", "granted a 2, granted c 3"},
		{"a: 1+; b: 2+; c: 3+", "b: 2+", "released a 1, released c 3"},
		// x was listed, and ended before its token was read.
		{"a: 1+ 2-", "a: x+", "released a 1, gone a 2"},
		{"a: x+ 2-", "a: 2+", "granted a 2"},
	} {
		var got []string
		for _, e := range Changes(queues(c.before), queues(c.now), time.Now()) {
			s := fmt.Sprintf("%s %s %d", e.Event, e.Name, e.Entry.Token)
			if e.From != 0 {
				s += fmt.Sprintf(" from %d", e.From)
			}
			got = append(got, s)
		}

		assert.Equal(t, c.want, strings.Join(got, ", "), "%s -> %s", c.before, c.now)
	}
}
