package session

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/session/driver"
)

// tableQueue makes a queue of a table below: e(exclusive), s(hared), a number for
// a weight, and ! for one with the mark that its recipe adds.
func tableQueue(text string) []driver.Entry {
	var all []driver.Entry
	for i, word := range strings.Fields(text) {
		e := driver.Entry{Ref: driver.Ref{Key: word, Place: int64(i + 1)}, Token: int64(i + 10)}
		word, marked := strings.CutSuffix(word, "!")
		switch {
		case marked && word == "e":
			e.Marks = driver.MarkShared
		case marked:
			e.Marks = driver.MarkAdmitted
		}
		switch word {
		case "e":
		case "s":
			e.Mode = driver.Shared
		default:
			e.Mode, e.Weight = driver.Weighted, int64(word[0]-'0')
		}
		all = append(all, e)
	}
	return all
}

func TestTheStateOfAnEntryFollowsTheRules(t *testing.T) {
	for _, c := range []struct {
		queue string
		limit int64
		holds string // of each entry
	}{
		{"", 0, ""},
		{"e e e", 0, "+--"},
		{"s s e s", 0, "++--"},
		{"e s s", 0, "+--"},
		{"e! s e s", 0, "++--"}, // a writer that became a reader
		{"3 2 1", 4, "+--"},     // no request overtakes
		{"3 1 1", 4, "++-"},
		{"3! 2! 1", 4, "++-"}, // the limit was lowered
		{"1 1", 0, "--"},      // it is not known how many may
		{"e 1", 4, "+-"},
	} {
		var got strings.Builder
		for i, e := range entriesOf(tableQueue(c.queue), c.limit) {
			assert.Equal(t, i+1, e.Place)
			got.WriteString(map[State]string{Holder: "+", Waiter: "-"}[e.State])
		}
		assert.Equal(t, c.holds, got.String(), "%s", c.queue)
	}
}

func TestAnEntryIsJSONThatReadsWell(t *testing.T) {
	asked := time.Date(2026, 11, 20, 17, 34, 10, 0, time.UTC)
	e := entryOf(2, true, driver.Entry{
		Ref: driver.Ref{Queue: "n", Key: "fairlock/n/1.0", Place: 7}, Token: 7, Session: "1a", Mode: driver.Weighted, Weight: 3,
		Data: []byte("10.0.0.7:8080"), Valued: true,
		Detail: owner.Meta{Kind: "semaphore", Host: "web-2", PID: 4121, Label: "nightly", Since: asked, Granted: asked.Add(time.Second)}.Encode(),
	})

	text, err := json.Marshal(e)

	require.NoError(t, err)
	assert.JSONEq(t, `{"state":"holder","place":2,"token":7,"kind":"semaphore","mode":"weighted","weight":3,"host":"web-2",
		"pid":4121,"label":"nightly","asked":"2026-11-20T17:34:10Z","granted":"2026-11-20T17:34:11Z","value":"10.0.0.7:8080",
		"session":"1a","key":"fairlock/n/1.0"}`, string(text))
	text, err = json.Marshal(entryOf(1, false, driver.Entry{Ref: driver.Ref{Key: "k"}, Foreign: true, Data: []byte("theirs")}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"state":"waiter","place":1,"mode":"exclusive","key":"k","foreign":true}`, string(text))
}

func TestAnEntryIsDescribedByItsDataOrItsDetail(t *testing.T) {
	asked := time.Date(2026, 11, 20, 17, 34, 10, 0, time.UTC)
	mine := owner.Meta{Kind: "mutex", Host: "web-2", Since: asked}
	lasting := mine
	lasting.Granted = asked.Add(time.Second)
	for name, c := range map[string]struct {
		e    driver.Entry
		want owner.Meta
	}{
		"in its data":                     {driver.Entry{Data: mine.Encode()}, mine},
		"with the time of the grant":      {driver.Entry{Data: mine.Encode(), Detail: lasting.Encode()}, lasting},
		"with no more than that":          {driver.Entry{Data: mine.Encode(), Detail: owner.Meta{Granted: lasting.Granted}.Encode()}, lasting},
		"in the detail of a valued entry": {driver.Entry{Data: mine.Encode(), Valued: true, Detail: owner.Meta{Host: "web-3"}.Encode()}, owner.Meta{Host: "web-3"}},
		"broken":                          {driver.Entry{Data: []byte("{"), Detail: []byte("[]")}, owner.Meta{}},
		"of another program":              {driver.Entry{Data: mine.Encode(), Foreign: true}, owner.Meta{}},
	} {
		got := owner.MetaOf(&c.e)

		assert.True(t, c.want.Since.Equal(got.Since) && c.want.Granted.Equal(got.Granted), name)
		got.Since, got.Granted = c.want.Since, c.want.Granted
		assert.Equal(t, c.want, got, name)
	}
}
