package etcdbackend

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func TestKeysBesideALineAreInNoLine(t *testing.T) {
	l := layout{root: "r"}
	ref := driver.Ref{Line: "a/b", Key: "r/a%2Fb/abc.0.v"}
	beside := []string{l.limit("a/b"), l.ledger("a/b"), l.numbers("a/b") + "7", l.meta(ref)}
	assert.Equal(t, []string{
		"r/%beside/a%2Fb/limit", "r/%beside/a%2Fb/ledger", "r/%beside/a%2Fb/slot/7", "r/%beside/a%2Fb/meta/abc.0.v",
	}, beside)
	for _, key := range beside {
		_, _, ok := l.lineOf(key)
		assert.False(t, ok, key)
		_, _, ok = layout{root: "r", kind: LayoutConcurrency}.lineOf(key)
		assert.False(t, ok, key)
		for _, name := range []string{"%beside", "%beside/a/b", "beside", "a", "a/b", "%", "\xbeside"} {
			assert.False(t, strings.HasPrefix(key, l.prefix(name)), "%q is in the line %q", key, name)
		}
	}
}

func TestConcurrencyLayoutKeepsClearOfWhatLiesBeside(t *testing.T) {
	l := layout{root: "fl", kind: LayoutConcurrency}
	for _, name := range []string{"fl", "fl/%beside", "fl/%beside/a", "fl/%beside/a/slot"} {
		assert.ErrorContains(t, l.check(name), "no entries", name)
	}
	assert.NoError(t, l.check("fl/%besides"))
	assert.NoError(t, l.check("fl/beside"))
}

func TestLinesJoinedAtOnceAreDifferentLines(t *testing.T) {
	native, plain := layout{root: "r"}, layout{root: "r", kind: LayoutConcurrency}
	reqs := func(names ...string) (all []driver.JoinRequest) {
		for _, n := range names {
			all = append(all, driver.JoinRequest{Line: n})
		}
		return all
	}
	require.NoError(t, native.checkAll(reqs("a", "a/b", "ab", "a/")))
	require.NoError(t, plain.checkAll(reqs("a", "ab", "b/a")))
	require.NoError(t, plain.checkAll(reqs(strings.Split(strings.Repeat("x,", maxAll-1)+"y", ",")[maxAll-2:]...)))

	for _, bad := range [][]driver.JoinRequest{
		nil,
		reqs("a", "b", "a"),
		{{Line: "a", Limit: 1}},
		{{Line: "a", Follow: true}},
		{{Line: "a", Value: []byte{}}},
		make([]driver.JoinRequest, maxAll+1),
	} {
		assert.Error(t, native.checkAll(bad), "%v", bad)
	}
	assert.ErrorContains(t, plain.checkAll(reqs("x", "a/b/c", "a")), `"a/b/c" and "a"`)
	assert.ErrorContains(t, plain.checkAll(reqs("a", "a/b")), `"a" and "a/b"`)
}

func TestOwnersReadBack(t *testing.T) {
	ref := driver.Ref{Line: "two words", Key: "r/two words/abc.0.w1", Place: 77}
	key, place, ok := parseOwner(owner(ref))
	assert.True(t, ok)
	assert.Equal(t, ref.Key, key)
	assert.Equal(t, ref.Place, place)
	for _, v := range []string{"", "77", "x y", " k"} {
		_, _, ok := parseOwner([]byte(v))
		assert.False(t, ok, "%q", v)
	}
}
