package etcdbackend

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

func TestEntryKeysReadBack(t *testing.T) {
	for _, c := range []struct {
		key  entryKey
		text string
	}{
		{entryKey{lease: 0x694d, slot: 0}, "694d.0"},
		{entryKey{lease: -1, slot: 17}, "ffffffffffffffff.17"},
		{entryKey{lease: 0xabc, slot: 2, mode: driver.Shared}, "abc.2.r"},
		{entryKey{lease: 0xabc, slot: 2, mode: driver.Weighted, weight: 3}, "abc.2.w3"},
		{entryKey{lease: 0xabc, slot: 2, mode: driver.Weighted}, "abc.2.w0"},
	} {
		assert.Equal(t, c.text, c.key.String())
		got, ok := parseEntry(c.text)
		assert.True(t, ok, c.text)
		assert.Equal(t, c.key, got)
	}
}

func TestForeignKeysAreNotEntries(t *testing.T) {
	for _, s := range []string{
		"", ".", "694d", "694d.", ".0", "694d.0.", "694d.00", "694d.+1", "694d.-1", "0694d.0", "0.0",
		"694D.0", "694d.0.R", "694d.0.r3", "694d.0.w", "694d.0.w03", "694d.0.w-1", "694d.0.x", "694d.0/1",
		"694d.99999999999", "11112222333344445.0", "read/1", "694d.0.r.r", " 694d.0",
	} {
		_, ok := parseEntry(s)
		assert.False(t, ok, s)
	}
}

func TestNamesNeverMeet(t *testing.T) {
	l := layout{root: "fairlock"}
	assert.Equal(t, "fairlock/orders%2Fsettle/", l.prefix("orders/settle"))
	assert.Equal(t, "fairlock/größe 100%25/", l.prefix("größe 100%"))
	assert.Equal(t, "fairlock/%00%0A%7F/", l.prefix("\x00\n\x7f"))

	names := []string{"a", "a/b", "a%2Fb", "a/", "/a", "%fence", "%", "%%", "%2F", "/"}
	for i, a := range names {
		for _, b := range names[i+1:] {
			pa, pb := l.prefix(a), l.prefix(b)
			assert.False(t, strings.HasPrefix(pa, pb) || strings.HasPrefix(pb, pa), "%q and %q", a, b)
		}
		assert.False(t, strings.HasPrefix(l.prefix(a), l.fences()), "%q lies among the fences", a)
	}
}

func TestOwnRangeHoldsOwnEntriesOnly(t *testing.T) {
	l := layout{root: "r"}
	from, to := l.own("x", 0xabc)
	in := func(key string) bool { return key >= from && key < to }
	for _, k := range []string{"r/x/abc.0", "r/x/abc.12.r", "r/x/abc.3.w7"} {
		assert.True(t, in(k), k)
	}
	for _, k := range []string{"r/x/abc", "r/x/abcd.0", "r/x/abc/1", "r/x/ab.0", "r/xy/abc.0"} {
		assert.False(t, in(k), k)
	}
}

func TestConcurrencyLayoutChecksNames(t *testing.T) {
	l := layout{root: "fair/lock", kind: LayoutConcurrency}
	assert.Equal(t, "a/b/", l.prefix("a/b"))
	for _, name := range []string{"a", "a/b", "/a", "fairlock", "fair/lock2", "fair/lock/%fence2", "a.0", "abc/zz.0"} {
		assert.NoError(t, l.check(name), name)
	}
	for _, name := range []string{"a/", "/", "fair", "fair/lock", "fair/lock/%fence", "fair/lock/%fence/x", "x/abc.0", "x/y/abc.0.r"} {
		if strings.HasPrefix(name, "x/") {
			assert.ErrorContains(t, l.check(name), "entry", name)
			continue
		}
		assert.Error(t, l.check(name), name)
	}
	assert.NoError(t, layout{root: "fairlock"}.check("a/"))
}

func TestLinesAreFoundByTheirKeys(t *testing.T) {
	native, plain := layout{root: "t/fl"}, layout{root: "fl", kind: LayoutConcurrency}
	for _, c := range []struct {
		lay  layout
		key  string
		name string
		ok   bool
	}{
		{native, "t/fl/a%2Fb/1.0", "a/b", true},
		{native, "t/fl/a/1.0/deep", "a", true},
		{native, "t/fl/%fence/1.0", "", false},
		{native, "t/fl/a", "", false},
		{native, "t/fl/a%2fb/1.0", "", false},
		{native, "t/fl//1.0", "", false},
		{plain, "a/b/1.0", "a/b", true},
		{plain, "/a/1", "/a", true},
		{plain, "a", "", false},
		{plain, "/a", "", false},
		{plain, "fl/%fence/1.0", "", false},
	} {
		name, from, ok := c.lay.lineOf(c.key)
		assert.Equal(t, c.ok, ok, c.key)
		assert.Greater(t, from, c.key)
		if ok {
			assert.Equal(t, c.name, name, c.key)
		}
	}
}

func TestEntryTellsWhatTheAnswerTells(t *testing.T) {
	l := layout{root: "r"}
	value := driver.Meta{Kind: "mutex", PID: 7}.Encode()
	own := &mvccpb.KeyValue{Key: []byte("r/x/abc.1.w3"), CreateRevision: 9, Lease: 0xdef, Value: value}

	e := l.entry("x", own, false)
	assert.Equal(t, driver.Entry{
		Ref:  driver.Ref{Line: "x", Key: "r/x/abc.1.w3", Place: 9},
		Mode: driver.Weighted, Weight: 3, Token: 9, Session: "abc",
	}, e)

	e = l.entry("x", own, true)
	assert.Equal(t, "def", e.Session, "the lease is the truth, the key only a name")
	assert.Equal(t, "mutex", e.Meta.Kind)

	e = l.entry("x", &mvccpb.KeyValue{Key: []byte("r/x/by-hand"), CreateRevision: 9, Value: value}, true)
	assert.True(t, e.Foreign && e.Unleased)
	assert.Equal(t, driver.Exclusive, e.Mode)
	assert.Zero(t, e.Meta)
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a/b", "%2F", "größe", "\x00\x1f\x7f%", "100%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		e := escape(name)
		require.NotContains(t, e, "/")
		for i := range len(name) {
			require.True(t, strings.HasPrefix(e, escape(name[:i])))
		}
		got, ok := unescape(e)
		require.True(t, ok)
		require.Equal(t, name, got)
		if back, ok := unescape(name); ok {
			require.Equal(t, name, escape(back), "two spellings of one name")
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	for _, s := range []string{"abc.0", "abc.0.r", "abc.1.w3", "abc", "abc.01", "0.0", "ffffffffffffffff.2147483647"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, ok := parseEntry(s)
		if ok {
			require.Equal(t, s, k.String())
			require.False(t, strings.Contains(s, "/"))
			require.NotZero(t, k.lease)
			require.True(t, slices.Contains([]driver.Mode{driver.Exclusive, driver.Shared, driver.Weighted}, k.mode))
		}
	})
}
