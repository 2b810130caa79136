package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// objects returns a value of each top-level type.
func objects() map[string]any {
	return map[string]any{
		"queue": &Queue{}, "event": &Event{}, "leader": &Leader{}, "grant": &Grant{}, "status": &Status{},
		"finding": &Finding{}, "bench": &Bench{}, "version": &Release{}, "error": &Error{},
	}
}

// examples returns the objects in docs/json.md.
func examples(t *testing.T) [][]byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/json.md")
	require.NoError(t, err)
	var all [][]byte
	for _, m := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestTheDocumentedExamplesAreWhatIsWritten(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range examples(t) {
		var h Header
		require.NoError(t, json.Unmarshal(text, &h), "%s", text)
		assert.Equal(t, Version, h.V)
		into, ok := objects()[h.Type]
		require.True(t, ok, h.Type)
		seen[h.Type] = true
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(into), "%s", text)

		again, err := json.Marshal(into)

		require.NoError(t, err)
		assert.JSONEq(t, string(text), string(again), "a documented field is lost, or another one is written")
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, text))
		assert.Equal(t, compact.String(), string(again), "the order differs")
	}
	for kind := range objects() {
		assert.True(t, seen[kind], "%s has no example", kind)
	}
}

func TestEveryFieldIsInAnExample(t *testing.T) {
	all := string(bytes.Join(examples(t), nil))
	visit := func(of reflect.Type) {
		for _, f := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			assert.Contains(t, all, `"`+name+`":`, "%s.%s", of.Name(), f.Name)
		}
	}
	for _, o := range objects() {
		visit(reflect.TypeOf(o).Elem())
	}
	visit(reflect.TypeFor[Entry]())
	visit(reflect.TypeFor[Ask]())
	visit(reflect.TypeFor[Spread]())
}

func TestConstructorsSetTheHeader(t *testing.T) {
	now := time.Now()
	for kind, o := range map[string]any{
		"queue": NewQueue("x"), "event": NewEvent(Queued, "x", now, Entry{}), "leader": NewLeader("x", now, nil), "grant": NewGrant(), "status": NewStatus(StateHeld, "x", now),
		"finding": NewFinding("clock", Good, "x"), "bench": NewBench(), "version": NewRelease(), "error": NewError(1, "x"),
	} {
		b, err := json.Marshal(o)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(b), `{"v":1,"type":"`+kind+`"`), "%s", b)
	}
}

func TestTimesAreInUTCWithMilliseconds(t *testing.T) {
	at := time.Date(2026, 11, 20, 18, 34, 10, 250999999, time.FixedZone("CET", 3600))

	b, err := json.Marshal([]any{At(at), Seconds(1500 * time.Millisecond), Seconds(15 * time.Second)})

	require.NoError(t, err)
	assert.Equal(t, `["2026-11-20T17:34:10.250Z",1.5,15]`, string(b))
	assert.True(t, At(time.Time{}).IsZero())
}

// exclusive makes the entries of a mutex.
func exclusive(n int) []driver.Entry {
	all := make([]driver.Entry, n)
	for i := range all {
		all[i] = driver.Entry{Ref: driver.Ref{Key: "k", Place: int64(i + 1)}, Token: int64(i + 10)}
	}
	return all
}

// describes gives an entry the description that its owner would store.
func describes(e *driver.Entry, m owner.Meta) { e.Data, e.Detail = m.Encode(), m.Encode() }

// shown returns a queue as the library shows it.
func shown(queue []driver.Entry) []session.Entry {
	return session.Engine(door.Key{}).Entries(queue, 0)
}

func TestQueueHasTheWaitingTimeOfTheOldestWaiter(t *testing.T) {
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	es := exclusive(4)
	for i, ago := range []time.Duration{time.Hour, time.Second, time.Minute, -time.Hour} { // one clock is ahead
		describes(&es[i], owner.Meta{Since: now.Add(-ago)})
	}
	describes(&es[1], owner.Meta{Kind: "mutex", Since: now.Add(-time.Second)})

	q := Describe("x", 0, shown(es), now)

	assert.Equal(t, Seconds(time.Minute), q.OldestWait)
	assert.Equal(t, "mutex", q.Kind)
	assert.Equal(t, Seconds(0), q.Entries[3].Queued)
	assert.Zero(t, q.Entries[0].Granted, "the entry does not record its grant")
	assert.Zero(t, q.Entries[0].Held)
}

// TestAHolderHasHeldSinceItsGrant has a holder that waited for an hour.
func TestAHolderHasHeldSinceItsGrant(t *testing.T) {
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	es := exclusive(2)
	for i := range es {
		describes(&es[i], owner.Meta{Since: now.Add(-time.Hour), Granted: now.Add(-2 * time.Second)})
	}

	q := Describe("x", 0, shown(es), now)

	assert.Equal(t, []Seconds{Seconds(time.Hour), Seconds(2 * time.Second)}, []Seconds{q.Entries[0].Queued, q.Entries[0].Held})
	assert.Equal(t, At(now.Add(-2*time.Second)), q.Entries[0].Granted)
	assert.Zero(t, q.Entries[1].Granted, "a waiter has held nothing")
	assert.Zero(t, q.Entries[1].Held)
}

func TestValuesOfOthersAreNotShown(t *testing.T) {
	es := []driver.Entry{{Data: []byte("ours"), Valued: true}, {Data: []byte("secret"), Foreign: true}, {Data: []byte{0xff}, Valued: true}}

	q := Describe("x", 0, shown(es), time.Now())

	assert.Equal(t, []string{"ours", "", ""}, []string{q.Entries[0].Value, q.Entries[1].Value, q.Entries[2].Value})
}

func TestWho(t *testing.T) {
	assert.Equal(t, "web-2 pid 4 (nightly)", Entry{Host: "web-2", PID: 4, Label: "nightly"}.Who())
	assert.Equal(t, "web-2", Entry{Host: "web-2"}.Who())
	assert.Equal(t, "another program's a/b", Entry{Key: "a/b", Foreign: true}.Who())
	assert.Equal(t, "a/b", Entry{Key: "a/b"}.Who())
	assert.Equal(t, "web-9 pid 8 (ops)", Ask{Host: "web-9", PID: 8, Label: "ops", Session: "7f"}.Who())
	assert.Equal(t, "session 7f", Ask{Session: "7f"}.Who())
}
