package drivertest

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// names: any name that CheckName accepts is a queue of its own.
func names() []testCase {
	return []testCase{
		{"OddNamesWork", oddNames},
		{"NamesThatBeginAlikeNeverMeet", alikeNames},
		{"NamesAreListedSortedByPrefix", listedNames},
	}
}

// odd are names that break careless layouts.
func odd() []string {
	return []string{
		"a", "A", "0", "-", "_", "naïve/日本語/🔒", "two words", " ", "tab\there", "line\nbreak",
		"100%", "%2F", "%2f", "a%2Fb", "/", "//", "/a", "a/", "a//b", ".", "..", "a/../b", "./a",
		"#", "a#m1.0", "a+b", "a:b", "a\\b", "*", "?", "[x]", "{\"v\":1}", "a\u200bb", "\u00e9", "e\u0301",
		"lock-0000000001", "a/0123456789abcdef.0", "zookeeper", "zookeeper/quota", "lock-", "lock-123",
		"x-lock-00000000001", "READ__0000000001", "_c_x", "\x01\x7f", "\u0085", "\uf8ff", "\ufff0", "fairlock", "fairlock/x",
		"limit", "holders", "slot/0", "asks",
		strings.Repeat("n", 512), strings.Repeat("/", 512), strings.Repeat("d/", 255) + "xy", strings.Repeat("ü", 256),
	}
}

// accepted are the odd names that the backend accepts.
func accepted(w *fixture, b driver.Backend) []string {
	all := slices.DeleteFunc(odd(), func(n string) bool { return b.CheckName(n) != nil })
	require.GreaterOrEqual(w.t, len(all), len(odd())/2, "a backend that refuses most odd names is not escaping")
	for _, plain := range []string{"a", "A", "0", "naïve/日本語/🔒", "two words", "100%"} {
		require.Contains(w.t, all, plain)
	}
	return all
}

// joinEach joins every name, and requires that each queue has that one entry.
func joinEach(w *fixture, o *owner, all []string) map[string]driver.Entry {
	made := make(map[string]driver.Entry, len(all))
	for _, name := range all {
		j := o.join(name)
		require.Zero(w.t, j.View.Count, "no entry is ahead in %q", name)
		made[name] = j.Entry
	}
	for _, name := range all {
		w.count(1, name, "its own entry only")
		require.Equal(w.t, made[name].Ref, o.only(name).Ref, "the queue %q", name)
		v := o.read(driver.ReadRequest{Queue: name, Upto: made[name].Place})
		require.Equal(w.t, []driver.Ref{made[name].Ref}, refs(v.Entries), "the queue %q", name)
	}
	return made
}

func oddNames(w *fixture) {
	o := w.open()
	all := accepted(w, o.c.Backend())
	made := joinEach(w, o, all)
	listed, err := o.Names(w.soon(), "")
	require.NoError(w.t, err)
	slices.Sort(all)
	assert.Equal(w.t, all, listed)

	for _, name := range all {
		r := o.armedEntry(name, made[name].Ref)
		o.leave(made[name].Ref)
		r.awaitGone()
	}
	listed, err = o.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Empty(w.t, listed, "a queue without entries has no name")
}

func alikeNames(w *fixture) {
	o, other := w.open(), w.open()
	all := []string{"a", "a/", "a/b", "a/b/c", "a.", "a.b", "a-", "a#", "a b", "ab", "A", "a%2Fb", "a%", "a0"}
	all = slices.DeleteFunc(all, func(n string) bool { return o.c.Backend().CheckName(n) != nil })
	made := joinEach(w, o, all)

	// What happens in one is not reported in another.
	r := other.armedEntry("a", made["a"].Ref)
	for _, name := range all {
		if name != "a" {
			o.leave(made[name].Ref)
			w.count(1, "a", "leaving another queue")
		}
	}
	r.silent("it lives")
	o.leave(made["a"].Ref)
	r.awaitGone()
}

func listedNames(w *fixture) {
	o := w.open()
	all := []string{"b", "jobs/1", "jobs/10", "jobs/2", "jobsx", "jobs", "a", "Jobs/1", "jobs%", "jobs/ü"}
	for _, name := range all {
		o.join(name)
	}
	o.join("jobs/2") // a second entry is not a second name
	for _, prefix := range []string{"", "jobs", "jobs/", "jobs/1", "job", "j", "x", "jobs/10/", "jobs/ü"} {
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		got, err := o.Names(w.soon(), prefix)
		require.NoError(w.t, err)
		assert.ElementsMatch(w.t, want, got, "prefix %q", prefix)
		assert.True(w.t, slices.IsSorted(got), "sorted: %q", got)
	}
}
