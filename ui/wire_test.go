package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/ui"
)

// TestTextsOfOthersArePlainOrQuoted: whatever an owner claims, the page gets characters
// that can be printed.
func TestTextsOfOthersArePlainOrQuoted(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		long := strings.Repeat("x", 512)
		want := map[string]string{
			"web-1":                   "web-1",
			"größe 東京":                "größe 東京",
			"<b onload=x>&amp;\"'":    "<b onload=x>&amp;\"'",
			"a\x1b[2J\r\n":            `"a\x1b[2J\r\n"`,
			"\u202egnp.exe":           `"\u202egnp.exe"`,
			"zero\u200bwidth\u2028":   `"zero\u200bwidth\u2028"`,
			"replacement \ufffd char": `"replacement � char"`,
		}
		m := mutex.New(f.worker("a"), "orders")
		for claimed := range want {
			defer waitFor(f, m.Lock)()
			entries := memtest.Entries(f.store, "orders")
			key := entries[len(entries)-1].Key
			require.True(t, memtest.Overwrite(f.store, "orders", key, owner.Meta{Kind: claimed, Host: claimed, Label: claimed, Holds: []string{claimed}, Trace: "00-1"}.Encode()))
		}
		memtest.PutForeign(f.store, "bytes", "\xff\xfe<b>\x00", true)
		memtest.PutForeign(f.store, long, "k", true)
		memtest.PutForeign(f.store, "tab\there", "k", true)

		p := f.page()
		p.take()
		st := f.state()

		orders, _ := st.lock("orders")
		got := map[string]bool{}
		for _, e := range orders.Entries {
			got[e.Host] = true
			assert.Equal(t, e.Host, e.Label)
			assert.Equal(t, e.Host, e.Kind)
			assert.Equal(t, []string{e.Host}, e.Holds)
			assert.Equal(t, "00-1", e.Trace)
		}
		for claimed, shown := range want {
			assert.True(t, got[shown], "%q is shown as one of %v", claimed, got)
		}
		bytes, _ := st.lock("bytes")
		assert.Equal(t, `"\xff\xfe<b>\x00"`, bytes.Entries[0].Key)
		assert.True(t, bytes.Entries[0].Foreign)
		l, ok := st.lock(long)
		assert.True(t, ok)
		assert.Empty(t, l.Show)
		tab, ok := st.lock("tab\there")
		assert.True(t, ok, "the name itself names the lock")
		assert.Equal(t, `"tab\there"`, tab.Show)
		p.close()
	})
}

// TestValuesAndNamesOfAnyBytes: a value that is not UTF-8 is none, and a name that is not is that of no
// lock.
func TestValuesAndNamesOfAnyBytes(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		long := strings.Repeat("v", 512)
		values := map[string]string{long: long, "\xff\xfe<b>": "", "<b>\x1b[2J": `"<b>\x1b[2J"`}
		for claimed := range values {
			e := election.New(f.worker("a"), fmt.Sprintf("leader-%d", len(claimed)))
			h, err := e.Campaign(f.t.Context(), claimed)
			require.NoError(t, err)
			defer func() { assert.NoError(t, h.Unlock()) }()
		}
		memtest.PutForeign(f.store, "\xff\xfename", "k", true)
		memtest.PutForeign(f.store, "nul\x00", "k", true)
		memtest.PutForeign(f.store, strings.Repeat("n", 513), "k", true)

		p := f.page()
		p.take()
		st := f.state()

		assert.Len(t, st.Locks, len(values))
		for claimed, shown := range values {
			l, ok := st.lock(fmt.Sprintf("leader-%d", len(claimed)))
			require.True(t, ok, "%q", claimed)
			require.Len(t, l.Entries, 1)
			assert.Equal(t, shown, l.Entries[0].Value)
		}
		assert.Empty(t, st.Status.Err)
		assert.Zero(t, st.Status.Unread)
		p.close()
	})
}

// TestAPrefixHidesTheNamesOfOtherLocks: an entry claims that its owner holds one.
func TestAPrefixHidesTheNamesOfOtherLocks(t *testing.T) {
	inBubble(t, ui.Options{Prefix: "orders/"}, func(f *fixture) {
		defer waitFor(f, mutex.New(f.worker("a"), "orders/1").Lock)()
		key := memtest.Entries(f.store, "orders/1")[0].Key
		require.True(t, memtest.Overwrite(f.store, "orders/1", key, owner.Meta{Host: "a", Holds: []string{"payroll", "orders/2", "orders"}}.Encode()))

		p := f.page()
		p.take()

		l, _ := f.state().lock("orders/1")
		require.Len(t, l.Entries, 1)
		assert.Equal(t, []string{"orders/2"}, l.Entries[0].Holds)
		p.close()
	})
}

// TestEntriesThatTheLoginMayNotReadAreCounted: servers of ZooKeeper from 3.8.4 on hide them.
func TestEntriesThatTheLoginMayNotReadAreCounted(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for lock, key := range map[string]string{"orders": "first\x1b", "secret": "alone"} {
			memtest.PutForeign(f.store, lock, key, true)
			f.hide.Store(key, true)
		}
		defer waitFor(f, mutex.New(f.worker("b"), "orders").Lock)()
		p := f.page()
		p.take()
		st := f.state()

		orders, _ := st.lock("orders")
		assert.Equal(t, "b", labels(orders.Entries))
		assert.Equal(t, 1, orders.Hidden.N)
		assert.Equal(t, `"first\x1b"`, orders.Hidden.First)
		assert.True(t, orders.Hidden.Holder)
		secret, ok := st.lock("secret")
		assert.True(t, ok, "its only entry cannot be read, and it is no empty queue")
		assert.Equal(t, 1, secret.Hidden.N)
		assert.Empty(t, secret.Entries)

		f.hide.Delete("alone")
		f.store.Delete("orders", "first\x1b")
		time.Sleep(2 * time.Second)
		for _, e := range p.take() {
			st.apply(t, e.data)
		}
		orders, _ = st.lock("orders")
		assert.Equal(t, "b+", labels(orders.Entries))
		assert.Zero(t, orders.Hidden)
		secret, _ = st.lock("secret")
		assert.Zero(t, secret.Hidden)
		assert.Len(t, secret.Entries, 1)
		p.close()
	})
}
