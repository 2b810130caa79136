package layout

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestStoredNamesAreOfOneRootAndDistinct(t *testing.T) {
	l, other := Layout{Schema: "s", Root: "app"}, Layout{Schema: "s", Root: "app2"}
	for name, want := range map[string]string{
		"":                       "app\x01q",
		"orders/settle":          "app\x01qorders/settle",
		"a":                      "app\x01qa",
		"é\U0010FFFF":            "app\x01qé\U0010FFFF",
		driver.AskQueue("a"):     "app\x01aa",
		driver.AskQueue("x\x01"): "app\x01ax\x01",
	} {
		stored := l.Queue(name)
		assert.Equal(t, want, stored, "%q", name)
		assert.NotContains(t, stored, "\x00", "text in PostgreSQL has no NUL")
		assert.NotEqual(t, stored, other.Queue(name))
		assert.False(t, strings.HasPrefix(other.Queue(name), l.Names()), "a prefix of names finds no other root")
	}
}

func TestLockKeysDependOnSchemaAndQueue(t *testing.T) {
	keys := map[int64]bool{}
	for _, schema := range []string{"s", "s\x01", "t"} {
		for _, queue := range []string{"a", "b", "\x00a", ""} {
			keys[Layout{Schema: schema}.Lock(queue)] = true
		}
	}
	assert.Len(t, keys, 12)
	assert.EqualValues(t, 8290773782806355180, Layout{Schema: "fairlock"}.Lock("fairlock\x01qa"), "clients of all versions must have one key")
}

func TestKeysNameTheirSessionAndPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		session, place := rapid.Int64().Draw(t, "session"), rapid.Int64().Draw(t, "place")
		ref := driver.Ref{Key: Key(session, place), Place: place}
		got, ok := SessionOf(ref)
		require.True(t, ok)
		require.Equal(t, session, got)
		ref.Place++
		_, ok = SessionOf(ref)
		require.False(t, ok, "the key has another place")
		got, ok = ParseSessionID(SessionID(session))
		require.True(t, ok)
		require.Equal(t, session, got)
	})
	for _, key := range []string{"", ".", ".7", "1.7", "0000000000000001", "0000000000000001.07", "000000000000000g.7", "00000000000000001.7", "0000000000000001.7.7"} {
		_, ok := SessionOf(driver.Ref{Key: key, Place: 7})
		assert.False(t, ok, key)
	}
}

func TestChannelsCannotBeGuessedAndFit(t *testing.T) {
	queue := "app\x01q" + strings.Repeat("long", 1000)
	c := Channel("secret", queue)
	assert.NotEqual(t, c, Channel("another", queue))
	assert.NotEqual(t, c, Channel("secret", queue+"x"))
	assert.NotContains(t, c, "secret")
	const most = 63 // bytes of an identifier
	longest := EntryChannel(c, -1<<63)
	assert.LessOrEqual(t, len(longest), most)
	assert.Regexp(t, "^[a-z0-9_-]+$", longest)
	assert.Equal(t, "fl_7dc3900c5362299c8feed99d556d0dbf", Channel("secret", "app\x01qa"), "clients of all versions must have one channel")
}

func TestNoticesSayWhatTheyMean(t *testing.T) {
	for payload, want := range map[string]Notice{
		"j":            {Kind: Came},
		"g00":          {Kind: Went},
		"g13":          {Kind: Went, First: true, Marks: 3},
		"g0255":        {Kind: Went, Marks: 255},
		"c02,7":        {Kind: Wrote, Marks: 2, Changed: 7},
		"c00,-9":       {Kind: Wrote, Changed: -9},
		"r":            {Kind: Recorded},
		"rslot/0":      {Kind: Recorded, Record: "slot/0"},
		"rg1,\u00e9 x": {Kind: Recorded, Record: "g1,\u00e9 x"},
	} {
		got, ok := ParseNotice(payload)
		assert.True(t, ok, payload)
		assert.Equal(t, want, got, payload)
	}
	for _, payload := range []string{"", "j1", "x", "g", "g0", "g0256", "g0-1", "g00,1", "gxx", "c", "c0", "c00", "c00,", "c00,x", "c0300,1"} {
		_, ok := ParseNotice(payload)
		assert.False(t, ok, payload)
	}
}

func FuzzNotices(f *testing.F) {
	f.Add("g13")
	f.Add("c02,7")
	f.Fuzz(func(t *testing.T, payload string) {
		n, ok := ParseNotice(payload)
		if ok && n.Kind != Came && n.Kind != Went && n.Kind != Wrote && n.Kind != Recorded {
			t.Fatalf("%q is of kind %q", payload, n.Kind)
		}
	})
}

func TestTheDDLCanBeRunAgain(t *testing.T) {
	l := Layout{Schema: `we"ird 'schema' $max`}
	all := l.DDL(90 * time.Second)
	require.Len(t, all, 12)
	for _, sql := range all {
		for line := range strings.Lines(sql) {
			assert.False(t, strings.HasPrefix(line, "create ") && !strings.Contains(line, "if not exists"), line)
		}
		assert.Contains(t, sql, `"we""ird 'schema' $max"`)
		assert.NotContains(t, sql, "$schema")
		assert.NotContains(t, sql, ";\n")
	}
	assert.Contains(t, l.Fresh(90*time.Second), ", 90000)")
	assert.Contains(t, l.Fresh(90*time.Second), `'"we""ird ''schema'' $max"."place"'::regclass`)
}

// Two processes compare the start of a server to the microsecond.
func TestTheStartIsWrittenWithItsMicroseconds(t *testing.T) {
	for micros, want := range map[int64]string{
		1795975058431483: "2026-11-29 17:57:38.431483+00",
		1795975058431480: "2026-11-29 17:57:38.43148+00",
		1795975058000000: "2026-11-29 17:57:38+00",
	} {
		assert.Contains(t, Life{Started: micros}.on(), `pg_postmaster_start_time() = '`+want+`'::timestamptz`)
	}
}

// What is in the texts by a name of the replacer is a defect that only this statement shows.
func TestTextsHaveNoPlaceholders(t *testing.T) {
	texts := Layout{Schema: "fairlock", Root: "app"}.NewTexts(Life{System: "1", Timeline: "00000001", Started: 5}, "secret")
	for name, text := range fields(texts) {
		assert.NotRegexp(t, `\$[a-z)]`, text, name)
		assert.NotEmpty(t, text, name)
	}
}

func TestEveryWriteComparesTheLife(t *testing.T) {
	texts := Layout{Schema: "fairlock", Root: "app"}.NewTexts(Life{System: "6", Timeline: "0000000A", Started: 5}, "secret")
	const stored = `where life = '6:0000000A'`
	without := []string{
		"Fence", "FenceOne", "Lock", "LockOne", "Void", "Partial", "SettleVoid", "Settle", // they make nothing that another client sees as a grant
		"Own", "Ahead", "Records", "Count", "Names", // an answer without a life goes with one that has it
		"EndMember", "EndRest", // behind EndSession, which does
		"SweepWatchers", "EndWatcher", "SweepDone",
	}
	for name, text := range fields(texts) {
		assert.Equal(t, !slices.Contains(without, name), strings.Contains(text, stored), name)
	}
}

// fields returns the texts by their names.
func fields(texts Texts) map[string]string {
	all := map[string]string{}
	v := reflect.ValueOf(texts)
	for i := range v.NumField() {
		all[v.Type().Field(i).Name] = v.Field(i).String()
	}
	return all
}
