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
		{entryKey{lease: 0x694d, index: 0}, "694d.0"},
		{entryKey{lease: -1, index: 17}, "ffffffffffffffff.17"},
		{entryKey{lease: 0xabc, index: 2, mode: driver.Shared}, "abc.2.r"},
		{entryKey{lease: 0xabc, index: 2, writer: true}, "abc.2.x"},
		{entryKey{lease: 0xabc, index: 2, mode: driver.Weighted, weight: 3}, "abc.2.w3"},
		{entryKey{lease: 0xabc, index: 2, mode: driver.Weighted}, "abc.2.w0"},
	} {
		assert.Equal(t, c.text, string(c.key.append(nil)))
		got, ok := parseEntryKey(c.text)
		assert.True(t, ok, c.text)
		assert.Equal(t, c.key, got)
	}
}

func TestForeignKeysAreNotEntries(t *testing.T) {
	for _, s := range []string{
		"", ".", "694d", "694d.", ".0", "694d.0.", "694d.00", "694d.+1", "694d.-1", "0694d.0", "0.0",
		"694D.0", "694d.0.R", "694d.0.r3", "694d.0.w", "694d.0.w03", "694d.0.w-1", "694d.0.y", "694d.0.x1", "694d.0/1",
		"694d.99999999999", "11112222333344445.0", "read/1", "694d.0.r.r", " 694d.0",
	} {
		_, ok := parseEntryKey(s)
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
		assert.False(t, l.isInternal(l.prefix(a)), "%q lies among what is no queue", a)
	}
}

func TestKeysThatAreNoEntriesMeetNoOther(t *testing.T) {
	for _, kind := range []Layout{LayoutNative, LayoutConcurrency} {
		l := layout{root: "r", kind: kind}
		owner := map[string]string{}
		for _, name := range []string{"a", "a/b", "a/%asks", "%asks", "%asks/%entry", "%v2"} {
			for _, q := range []string{name, driver.AskQueue(name)} {
				keys := []string{l.side(q) + "limit", l.side(q) + detailFolder + "abc.0", l.side(q) + "slot/0"}
				if kind == LayoutNative || q != name {
					keys = append(keys, l.prefix(q)+"abc.0")
				}
				for _, key := range keys[:3] {
					assert.False(t, strings.HasPrefix(key, l.prefix(name)) || strings.HasPrefix(key, l.prefix(q)), "%q is no entry of %q", key, q)
				}
				for _, key := range keys {
					assert.Empty(t, owner[key], "another queue than %q has the key %q", q, key)
					owner[key] = q
				}
			}
		}
	}
}

func TestConcurrencyLayoutChecksNames(t *testing.T) {
	l := layout{root: "fair/lock", kind: LayoutConcurrency}
	assert.Equal(t, "a/b/", l.prefix("a/b"))
	for _, name := range []string{"a", "a/b", "/a", "fairlock", "fair/lock2", "fair/lock/%fence2", "fair/lock/%v22", "a.0", "abc/zz.0", "a/", "/", "/a/"} {
		assert.NoError(t, l.check(name), name)
	}
	for _, name := range []string{"fair", "fair/lock", "fair/lock/%fence", "fair/lock/%fence/x", "fair/lock/%v2/a/slot", "fair/lock/%witness", "x/abc.0", "x/y/abc.0.r"} {
		if strings.HasPrefix(name, "x/") {
			assert.ErrorContains(t, l.check(name), "entry", name)
			continue
		}
		assert.ErrorContains(t, l.check(name), "no entries", name)
	}
}

func TestQueuesAreFoundByTheirKeys(t *testing.T) {
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
		{plain, "a//1.0", "a/", true},
		{plain, "//1.0", "/", true},
		{native, "t/fl/a%2fb/1.0", "", false},
		{native, "t/fl//1.0", "", false},
		{plain, "a/b/1.0", "a/b", true},
		{plain, "/a/1", "/a", true},
		{plain, "a", "", false},
		{plain, "/a", "", false},
		{plain, "fl/%fence/1.0", "", false},
	} {
		name, from, ok := c.lay.queueOf(c.key)
		assert.Equal(t, c.ok, ok, c.key)
		assert.Greater(t, from, c.key)
		if ok {
			assert.Equal(t, c.name, name, c.key)
		}
	}
}

func TestOnlyAWrittenValueHasMarks(t *testing.T) {
	q := &queue{name: "x", prefix: "r/x/"}
	shown := func(key string, version int64, value string) driver.Entry {
		kv := &mvccpb.KeyValue{Key: []byte("r/x/" + key), CreateRevision: 9, Version: version, Value: []byte(value), Lease: 1}
		e := q.entry(kv)
		if hides(&e, kv) || version == 1 {
			reveal(&e, kv)
		}
		return e
	}
	assert.Zero(t, shown("abc.1.x", 1, "{}\n#shared").Marks, "it was made with this")
	assert.Equal(t, "{}\n#shared", string(shown("abc.1.x", 1, "{}\n#shared").Data))
	e := shown("abc.1.x", 2, "{}\n#shared")
	assert.Equal(t, driver.MarkShared, e.Marks)
	assert.True(t, e.Shares())
	assert.Equal(t, "{}", string(e.Data))
	assert.Zero(t, shown("abc.1.x", 2, "by hand").Marks)
	assert.Zero(t, shown("abc.1.v", 2, "web-1\n#shared").Marks, "the value is for other programs")
	assert.Equal(t, driver.MarkAdmitted, shown("abc.1.w3", 2, "").Marks, "known without its value")
}

func FuzzMarks(f *testing.F) {
	for _, s := range []string{"", "{}", "\n#", "{}\n#shared", "\n#shared,", "\n#shared\n#admitted"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for m := driver.MarkShared; m <= driver.MarkAdmitted; m++ {
			got, marks := decodeMarks(encodeMarks(data, m))
			require.Equal(t, m, marks)
			require.Equal(t, string(data), string(got))
		}
		_, _ = decodeMarks(data)
	})
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

func FuzzParseEntryKey(f *testing.F) {
	for _, s := range []string{"abc.0", "abc.0.r", "abc.1.w3", "abc", "abc.01", "0.0", "ffffffffffffffff.2147483647"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, ok := parseEntryKey(s)
		if ok {
			require.Equal(t, s, string(k.append(nil)))
			require.False(t, strings.Contains(s, "/"))
			require.NotZero(t, k.lease)
			require.True(t, slices.Contains([]driver.Mode{driver.Exclusive, driver.Shared, driver.Weighted}, k.mode))
		}
	})
}
