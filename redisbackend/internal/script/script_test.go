package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	"encoding/hex"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/redisbackend/internal/fakeredis"
	"github.com/fairlock/fairlock/session/driver"
)

var kinds = []Kind{{}, {Cluster: true}, {Flags: true}, {Cluster: true, Flags: true}}

// scripts returns the scripts of a set.
func scripts(set *Set) []Script {
	var all []Script
	for _, v := range reflect.ValueOf(*set).Fields() {
		if s, ok := v.Interface().(Script); ok {
			all = append(all, s)
		}
	}
	return all
}

func TestEachFileIsPartOfAScript(t *testing.T) {
	all := scripts(New(Kind{}))
	require.Len(t, all, 13)
	files, err := files.ReadDir("lua")
	require.NoError(t, err)
	for _, f := range files {
		text := must(t, f.Name())
		assert.True(t, slices.ContainsFunc(all, func(s Script) bool { return strings.Contains(s.Text, text) }), f.Name())
	}
	for _, s := range all {
		assert.True(t, strings.HasPrefix(work(t, s), must(t, "head.lua")), s.Name)
		assert.True(t, strings.HasSuffix(s.Text, must(t, s.Name+".lua")), s.Name)
	}
}

// work is the text of a script, without the questions about the rights of the login.
func work(t *testing.T, s Script) string {
	t.Helper()
	return strings.TrimPrefix(s.Text, must(t, "rights.lua"))
}

func must(t *testing.T, name string) string {
	t.Helper()
	b, err := files.ReadFile("lua/" + name)
	require.NoError(t, err)
	return string(b)
}

func TestAScriptIsNamedByTheSumOfItsText(t *testing.T) {
	seen := map[string]string{}
	for _, k := range kinds {
		for _, s := range scripts(New(k)) {
			sum := sha1.Sum([]byte(s.Text)) //nolint:gosec // Redis names scripts so
			assert.Equal(t, hex.EncodeToString(sum[:]), s.SHA, s.Name)
			assert.Contains(t, []string{"", s.Text}, seen[s.SHA])
			seen[s.SHA] = s.Text
		}
	}
}

func TestNoticesAreShardedInACluster(t *testing.T) {
	for _, s := range scripts(New(Kind{Cluster: true})) {
		assert.NotContains(t, work(t, s), "'PUBLISH'", s.Name)
	}
	assert.Contains(t, New(Kind{Cluster: true}).Join.Text, "call('SPUBLISH', P .. 'c:")
	assert.Contains(t, New(Kind{}).Join.Text, "call('PUBLISH', P .. 'c:")
	assert.Equal(t, New(Kind{}).Examine.SHA, New(Kind{Cluster: true}).Examine.SHA, "it is run before the kind of server is known")
	assert.Equal(t, New(Kind{}).Init.SHA, New(Kind{Cluster: true}).Init.SHA, "the same")
}

// A script that names what it does is refused by a server that may not do it, before it begins. What frees
// memory runs also when memory is short, and what only reads cannot write.
func TestScriptsNameWhatTheyDo(t *testing.T) {
	writes := regexp.MustCompile(`call\('(HSET|HDEL|ZADD|ZREM|DEL|PUBLISH|EXPIRE)'`)
	called := regexp.MustCompile(`(?m)^local function tick|^local function drop|^local function tell|^local function remove`)
	plain := scripts(New(Kind{}))
	for i, s := range scripts(New(Kind{Flags: true})) {
		flags, rest, _ := strings.Cut(s.Text, "\n")
		assert.Equal(t, plain[i].Text, rest, s.Name)
		want := "#!lua"
		switch s.Name {
		case "see", "read", "names":
			want = "#!lua flags=no-writes"
			own := must(t, s.Name+".lua")
			assert.NotRegexp(t, writes, own, s.Name)
			assert.NotRegexp(t, called, own, s.Name)
		case "examine", "bless", "renew", "finish", "settle", "leave", "watch":
			want = "#!lua flags=allow-oom"
		}
		assert.Equal(t, want, flags, s.Name)
	}
}

// What grants or writes for a session compares the life in the same step.
func TestEachScriptComparesTheLifeBeforeItWrites(t *testing.T) {
	compares := regexp.MustCompile(`if nx\(\) ~= server or meta\[1\] ~= server then return \{'LIFE'\} end`)
	writes := regexp.MustCompile(`call\('(HSET|HDEL|ZADD|ZREM|DEL|PUBLISH|EXPIRE)'`)
	for _, s := range scripts(New(Kind{})) {
		assert.Regexp(t, `^(--.*\n|local [^\n]*\n|\n)*if not string\.find\(info, 'role:master', 1, true\) then return \{'REPLICA'\} end`, work(t, s), s.Name)
		if slices.Contains([]string{"examine", "bless", "init"}, s.Name) {
			continue // they make what the others compare
		}
		compared := compares.FindStringIndex(s.Text)
		require.NotNil(t, compared, s.Name)
		if first := writes.FindStringIndex(s.Text); first != nil {
			assert.Less(t, compared[0], first[0], s.Name)
		}
	}
}

// All keys begin with the only one that is named, so a cluster has them in one slot.
func TestAllKeysBeginWithThePrefix(t *testing.T) {
	commands := regexp.MustCompile(`call\('([A-Z]+)',? ?([^,)]*)`)
	for _, s := range scripts(New(Kind{})) {
		found := commands.FindAllStringSubmatch(work(t, s), -1)
		require.NotEmpty(t, found, s.Name)
		for _, c := range found {
			if c[1] == "INFO" || c[1] == "TIME" {
				continue
			}
			assert.Regexp(t, `^(P \.\. '|k[qhrs]\(|k$)`, c[2], "%s: %s", s.Name, c[0])
		}
	}
	assert.Equal(t, "{a/b}:", Prefix("a/b"))
	assert.Equal(t, "{r}:c::a:b", QueueChannel(Channels(Prefix("r"), 0), "a:b"))
	assert.Equal(t, "{r}:c:a-1000", SessionChannel(Channels(Prefix("r"), 0), "a-1000"))
}

func TestASessionHasItsTTLInItsID(t *testing.T) {
	one, two := NewSession(90*time.Second), NewSession(90*time.Second)
	assert.NotEqual(t, one, two)
	assert.Equal(t, 90*time.Second, TTL(one))
	assert.Zero(t, TTL(NewObserver()))
	for _, id := range []string{"", "x", "x-", "x-y", "x--5", "-", "o-"} {
		assert.Zero(t, TTL(id), "%q", id)
	}
	assert.True(t, strings.HasPrefix(NewObserver(), "o"))
	for range 100 { // once.lua takes what begins with an o for an observer
		assert.False(t, strings.HasPrefix(NewSession(time.Second), "o"))
		assert.NotContains(t, NewSession(time.Second), ".", "it ends the session in the key of an entry")
		assert.NotContains(t, NewSession(time.Second), " ", "it ends the session in a header")
		assert.NotContains(t, NewSession(time.Second), ":", "it ends the session in a record")
	}
}

func TestAKeyNamesItsSession(t *testing.T) {
	s := NewSession(time.Second)
	assert.Equal(t, s, SessionOf(driver.Ref{Queue: "q", Key: Key(s, 1234567890123456), Place: 1234567890123456}))
	for _, ref := range []driver.Ref{
		{}, {Key: s, Place: 5}, {Key: s + ".5", Place: 6}, {Key: s + ".05", Place: 5}, {Key: s + ".5.5", Place: 5}, {Key: ".", Place: 0},
	} {
		assert.Empty(t, SessionOf(ref), "%v", ref)
	}
}

func TestNotices(t *testing.T) {
	for payload, want := range map[string]Notice{
		"e":        {Kind: Entered},
		"ra":       {Kind: Recorded, Record: "a"},
		"r":        {Kind: Recorded},
		"rg1":      {Kind: Recorded, Record: "g1"},
		"g0:0:5:q": {Kind: Went, Queue: "q", Place: 5},
		"g1:2:5:q": {Kind: Went, Queue: "q", Place: 5, Marks: 2, First: true},
		"g1:0:5::": {Kind: Went, Queue: ":", Place: 5, First: true},

		"c17:3:9007199254740991:a:b": {Kind: Wrote, Queue: "a:b", Place: 1<<53 - 1, Marks: 3, Changes: 17},

		"": {}, "g": {}, "g1": {}, "g1:2:5": {}, "x1:2:5:q": {}, "ee": {}, "c": {}, "c3:17": {}, "cx:3:5:q": {}, "c1:256:5:q": {}, "c1:-1:5:q": {}, "c1:3:x:q": {},
	} {
		assert.Equal(t, want, ParseNotice(payload), "%q", payload)
	}
}

func FuzzNotice(f *testing.F) {
	f.Add("c17:3:5:q")
	f.Add("r\x00")
	f.Fuzz(func(t *testing.T, payload string) {
		n := ParseNotice(payload)
		if n.Kind == Recorded {
			assert.Equal(t, payload, "r"+n.Record)
		}
		if n.Kind != Wrote {
			assert.Zero(t, n.Marks)
		}
	})
}

func TestRecords(t *testing.T) {
	for raw, want := range map[string]driver.Record{
		"5:s-1:v":     {Value: []byte("v"), Version: 5, Token: 5},
		"5::v":        {Value: []byte("v"), Version: 5, Token: 5},
		"5::a:b:c":    {Value: []byte("a:b:c"), Version: 5, Token: 5},
		"5::\x00\xff": {Value: []byte("\x00\xff"), Version: 5, Token: 5},
		"5::":         {Value: []byte{}, Version: 5, Token: 5},
		"":            {}, "x::v": {}, "5": {},
	} {
		assert.Equal(t, want, Record(raw), "%q", raw)
	}
}

func TestHeaders(t *testing.T) {
	marks, changes, there := Header("s-1 1 2 1 3 17")
	assert.True(t, there)
	assert.Equal(t, driver.Marks(3), marks)
	assert.EqualValues(t, 17, changes)
	for _, gone := range []string{"", "s-1", "s-1 1 2 1 3", "s-1 1 2 1 3 17 4"} {
		_, _, there := Header(gone)
		assert.False(t, there, "%q", gone)
	}
}

func TestEntries(t *testing.T) {
	r := Reply(fakeredis.Reply(
		[]any{"5", "a-1 1 2 1 3 17"},
		[]any{6, "b-1 0 0 0 0 0", "data"},
		[]any{"7", "b-1 0 0 0 0 0", "", "detail"},
	))
	all, err := r.Entries("q")
	require.NoError(t, err)
	ref := func(session string, place int64) driver.Ref {
		return driver.Ref{Queue: "q", Key: Key(session, place), Place: place}
	}
	assert.Equal(t, []driver.Entry{
		{Ref: ref("a-1", 5), Mode: 1, Weight: 2, Valued: true, Marks: 3, Token: 5, Session: "a-1"},
		{Ref: ref("b-1", 6), Token: 6, Session: "b-1", Data: []byte("data")},
		{Ref: ref("b-1", 7), Token: 7, Session: "b-1", Data: []byte{}, Detail: []byte("detail")},
	}, all)

	for _, header := range []string{"", "a-1", "a-1 x 2 1 3 17", "a-1 300 2 1 3 17"} {
		_, err := Reply(fakeredis.Reply([]any{"5", header})).Entries("q")
		require.ErrorIs(t, err, driver.ErrRefused, "%q", header)
	}
}

func TestAReplyHasEmptyFieldsWhereItHasNone(t *testing.T) {
	r := Reply(fakeredis.Reply("a", 5, nil, []any{"x"}))
	assert.Equal(t, []string{"a", "5", "", "", ""}, []string{r.Text(0), r.Text(1), r.Text(2), r.Text(3), r.Text(4)})
	assert.Equal(t, []int64{0, 5, 0, 0, 0}, []int64{r.Int(0), r.Int(1), r.Int(2), r.Int(3), r.Int(4)})
	assert.Empty(t, r.List(0))
	assert.Empty(t, r.List(4))
	assert.Equal(t, "x", r.List(3).Text(0))
	assert.EqualValues(t, 7, Reply(fakeredis.Reply("7")).Int(0))
}

func TestResultsAndRecords(t *testing.T) {
	r := Reply(fakeredis.Reply([]any{"1", "5::v"}, []any{"0", ""}))
	record := driver.Record{Value: []byte("v"), Version: 5, Token: 5}
	assert.Equal(t, []driver.Result{{Done: true, Record: record}, {}}, r.Results())
	assert.Equal(t, map[string]driver.Record{"a": record}, Reply(fakeredis.Reply([]any{"a", "5::v"})).Records())
}

func TestArguments(t *testing.T) {
	var a Args
	a.Flag(true)
	a.Flag(false)
	a.Bytes(nil)
	a.Bytes([]byte{})
	a.Bytes([]byte("b"))
	a.Texts([]string{"x", "y"})
	assert.Equal(t, Args{"1", "0", "0", "", "1", "", "1", "b", "2", "x", "y"}, a)

	a = nil
	a.Ops([]driver.Op{
		{Record: "a", Value: []byte("v"), Bound: true},
		{Record: "b", If: driver.Cond{Kind: driver.IfAt, Version: 7, Value: []byte("no")}, Optional: true},
		{Record: "c", If: driver.Cond{Kind: driver.IfEqual, Value: []byte("old")}},
	})
	assert.Equal(t, Args{
		"3",
		"a", "0", "", "1", "v", "1", "0",
		"b", "3", "7", "0", "", "0", "1",
		"c", "1", "old", "0", "", "0", "0",
	}, a)
}
