package session

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// queueOf makes a queue of a table below: e(exclusive), s(hared), a number for
// a weight, and ! for one that was admitted.
func queueOf(text string) []driver.Entry {
	var all []driver.Entry
	for i, word := range strings.Fields(text) {
		e := driver.Entry{Ref: driver.Ref{Key: word, Place: int64(i + 1)}, Token: int64(i + 10)}
		word, e.Admitted = strings.CutSuffix(word, "!")
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

func TestTheStateOfAnEntryIsWhatTheRulesSay(t *testing.T) {
	for _, c := range []struct {
		queue string
		limit int64
		holds string // of each entry
	}{
		{"", 0, ""},
		{"e e e", 0, "+--"},
		{"s s e s", 0, "++--"},
		{"e s s", 0, "+--"},
		{"3 2 1", 4, "+--"}, // nobody overtakes
		{"3 1 1", 4, "++-"},
		{"3! 2! 1", 4, "++-"}, // the limit was lowered
		{"1 1", 0, "--"},      // it is not known how many may
		{"e 1", 4, "+-"},
	} {
		var got strings.Builder
		for i, e := range entriesOf(queueOf(c.queue), c.limit) {
			assert.Equal(t, i+1, e.Place)
			got.WriteString(map[State]string{Holder: "+", Waiter: "-"}[e.State])
		}
		assert.Equal(t, c.holds, got.String(), "%s", c.queue)
	}
}

func TestAnEntryIsJSONThatReadsWell(t *testing.T) {
	asked := time.Date(2026, 11, 20, 17, 34, 10, 0, time.UTC)
	e := entryOf(2, true, driver.Entry{
		Ref: driver.Ref{Line: "n", Key: "fairlock/n/1.0", Place: 7}, Token: 7, Session: "1a", Mode: driver.Weighted, Weight: 3,
		Value: []byte("10.0.0.7:8080"), Granted: asked.Add(time.Second),
		Meta: driver.Meta{Kind: "semaphore", Host: "web-2", PID: 4121, Label: "nightly", Since: asked},
	})

	text, err := json.Marshal(e)

	require.NoError(t, err)
	assert.JSONEq(t, `{"state":"holder","place":2,"token":7,"kind":"semaphore","mode":"weighted","weight":3,"host":"web-2",
		"pid":4121,"label":"nightly","asked":"2026-11-20T17:34:10Z","granted":"2026-11-20T17:34:11Z","value":"10.0.0.7:8080",
		"session":"1a","key":"fairlock/n/1.0"}`, string(text))
	text, err = json.Marshal(entryOf(1, false, driver.Entry{Ref: driver.Ref{Key: "k"}, Foreign: true, Value: []byte("theirs"), Granted: asked}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"state":"waiter","place":1,"mode":"exclusive","key":"k","foreign":true}`, string(text))
}
