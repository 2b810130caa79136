package ui_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

type order struct {
	Lock   string `json:"lock"`
	ID     string `json:"id,omitempty"`
	Holder bool   `json:"holder,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// shown returns the entry with a label that a page shows.
func (f *fixture) shown(lock, label string) entry {
	f.t.Helper()
	l, _ := f.state().lock(lock)
	for _, e := range l.Entries {
		if e.Label == label {
			return e
		}
	}
	require.Fail(f.t, "no entry of "+label)
	return entry{}
}

func TestEvictDeletesTheEntryThatWasShown(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, ui.Options{AllowEvict: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(f *fixture) {
		a := f.worker("a")
		h, err := mutex.New(a, "orders").Lock(f.t.Context())
		require.NoError(t, err)
		defer waitFor(f, mutex.New(f.worker("b"), "orders").Lock)()
		p := f.page()
		p.take()
		e := f.shown("orders", "a")

		code, text := f.post("/evict", order{Lock: "orders", ID: e.ID, Holder: e.Holder}, "Origin", "http://localhost", "Sec-Fetch-Site", "same-origin")

		assert.Equal(t, http.StatusOK, code, text)
		assert.Contains(t, text, "(a) (token "+e.Token+")")
		require.ErrorIs(t, h.Unlock(), session.ErrLost)
		time.Sleep(time.Second)
		p.take()
		l, _ := f.state().lock("orders")
		assert.Equal(t, "b+", labels(l.Entries))
		assert.Contains(t, log.String(), "fairlock ui: evicted")
		p.close()
	})
}

// TestAnEvictionOfAWaiterNeverBreaksTheLock: it has become the holder since the user was asked.
func TestAnEvictionOfAWaiterNeverBreaksTheLock(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
		h, err := mutex.New(f.worker("a"), "orders").Lock(f.t.Context())
		require.NoError(t, err)
		defer waitFor(f, mutex.New(f.worker("b"), "orders").Lock)()
		p := f.page()
		p.take()
		waiter := f.shown("orders", "b")
		require.False(t, waiter.Holder)
		require.NoError(t, h.Unlock())
		synctest.Wait()

		code, text := f.post("/evict", order{Lock: "orders", ID: waiter.ID})

		assert.Equal(t, http.StatusConflict, code)
		assert.Contains(t, text, "(b) holds by now: no entry was evicted, look again")
		assert.Len(t, memtest.Entries(f.store, "orders"), 1)
		p.take()
		holder := f.shown("orders", "b")
		assert.True(t, holder.Holder, "the page was read again")
		assert.Equal(t, waiter.ID, holder.ID)
		code, text = f.post("/evict", order{Lock: "orders", ID: holder.ID, Holder: true})
		assert.Equal(t, http.StatusOK, code, text)
		p.close()
	})
}

// TestEvictNeverDeletesASuccessor: the shown entry has ended, and another entry has its
// place, even one with the same key.
func TestEvictNeverDeletesASuccessor(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
		memtest.PutForeign(f.store, "orders", "k", true)
		p := f.page()
		p.take()
		l, _ := f.state().lock("orders")
		shown := l.Entries[0]
		require.True(t, f.store.Delete("orders", "k"))
		memtest.PutForeign(f.store, "orders", "k", true)

		code, text := f.post("/evict", order{Lock: "orders", ID: shown.ID, Holder: true})

		assert.Equal(t, http.StatusConflict, code)
		assert.Contains(t, text, "the entry is gone")
		assert.Len(t, memtest.Entries(f.store, "orders"), 1)
		p.close()
	})
}

func TestActionsAreRefusedWithoutEveryGuard(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true, Prefix: "orders"}, func(f *fixture) {
		memtest.PutForeign(f.store, "orders", "k", true)
		memtest.PutForeign(f.store, "other", "k", true)
		p := f.page()
		p.take()
		st := f.state()
		require.Len(t, st.Locks, 1)
		o := order{Lock: "orders", ID: st.Locks[0].Entries[0].ID, Holder: true}
		refused := func(want int, path string, o order, header ...string) {
			t.Helper()
			code, text := f.post(path, o, header...)
			assert.Equal(t, want, code, text)
			assert.NotEmpty(t, text)
		}

		refused(403, "/evict", o, "X-Fairlock-Token", "")
		refused(403, "/evict", o, "X-Fairlock-Token", "wrong")
		refused(403, "/evict", o, "Origin", "http://evil.example")
		refused(403, "/evict", o, "Origin", "null")
		refused(403, "/evict", o, "Sec-Fetch-Site", "cross-site")
		refused(403, "/evict", o, "Sec-Fetch-Site", "same-site")
		refused(403, "/ask", o, "Sec-Fetch-Site", "cross-site")
		refused(403, "/withdraw", o, "X-Fairlock-Token", "wrong")
		refused(400, "/evict", order{Lock: "other", ID: o.ID})
		refused(400, "/evict", order{Lock: "", ID: o.ID})
		refused(400, "/ask", order{Lock: "orders", Reason: strings.Repeat("x", 300)})
		refused(400, "/ask", order{Lock: "orders", Reason: strings.Repeat("x", 20000)})
		refused(409, "/evict", order{Lock: "orders"})
		refused(409, "/withdraw", o)
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodOptions, http.MethodHead} {
			res, _ := f.do(method, "/evict", `{"lock":"orders","id":"`+o.ID+`"}`, "X-Fairlock-Token", f.token)
			assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, method)
			assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		}

		assert.Len(t, memtest.Entries(f.store, "orders"), 1)
		assert.Len(t, memtest.Entries(f.store, "other"), 1)
		p.close()
	})
}

// TestOnlyAPageWithTheTokenActs: with Options.Token no answer contains what actions need.
func TestOnlyAPageWithTheTokenActs(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true, Token: "of-the-address"}, func(f *fixture) {
		memtest.PutForeign(f.store, "orders", "k", true)
		p := f.page()
		p.take()
		_, state := f.get("/state")
		assert.NotContains(t, state, "of-the-address")
		o := order{Lock: "orders", ID: f.state().Locks[0].Entries[0].ID, Holder: true}

		code, text := f.post("/evict", o)
		assert.Equal(t, http.StatusForbidden, code)
		assert.Contains(t, text, "#token=")
		assert.Len(t, memtest.Entries(f.store, "orders"), 1)

		code, text = f.post("/evict", o, "X-Fairlock-Token", "of-the-address")
		assert.Equal(t, http.StatusOK, code, text)
		assert.Empty(t, memtest.Entries(f.store, "orders"))
		p.close()
	})
}

func TestAPageThatReadsOnlyRefusesActions(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		memtest.PutForeign(f.store, "orders", "k", true)
		p := f.page()
		p.take()
		st := f.state()
		for _, path := range []string{"/evict", "/ask", "/withdraw"} {
			code, text := f.post(path, order{Lock: "orders", ID: st.Locks[0].Entries[0].ID, Holder: true})
			assert.Equal(t, http.StatusForbidden, code)
			assert.Contains(t, text, "read-only")
		}
		assert.Len(t, memtest.Entries(f.store, "orders"), 1)
		p.close()
	})
}

func TestAYieldRequestStandsUntilItIsWithdrawn(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
		h, err := mutex.New(f.worker("a"), "orders").Lock(f.t.Context())
		require.NoError(t, err)
		p := f.page()
		p.take()
		f.state()

		code, text := f.post("/ask", order{Lock: "orders", Reason: "hotfix\x1b[2J"})
		assert.Equal(t, http.StatusOK, code, text)
		asked, err := yield.Next(f.t.Context(), h)
		require.NoError(t, err)
		assert.Equal(t, "hotfix\x1b[2J", asked.Reason)
		assert.True(t, f.past("orders").Asked)
		time.Sleep(2 * time.Second)
		p.take()
		l, _ := f.state().lock("orders")
		require.Len(t, l.Asks, 1)
		assert.Equal(t, `"hotfix\x1b[2J"`, l.Asks[0].Reason)

		code, text = f.post("/withdraw", order{Lock: "orders"})
		assert.Equal(t, http.StatusOK, code, text)
		assert.False(t, f.past("orders").Asked)
		asks, err := yield.List(f.t.Context(), f.s, "orders")
		require.NoError(t, err)
		assert.Empty(t, asks)
		require.NoError(t, h.Unlock())
		p.close()
	})
}

// TestAYieldRequestThatEndedWithTheSessionIsForgotten: the page offers to ask again.
func TestAYieldRequestThatEndedWithTheSessionIsForgotten(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
		end := waitFor(f, mutex.New(f.worker("a"), "orders").Lock)
		p := f.page()
		p.take()
		f.state()
		code, _ := f.post("/ask", order{Lock: "orders"})
		require.Equal(t, http.StatusOK, code)

		f.link.Cut(fault.Both)
		time.Sleep(30 * time.Second)
		f.link.Heal()
		time.Sleep(30 * time.Second)
		synctest.Wait()

		assert.False(t, f.past("orders").Asked)
		p.close()
		end()
	})
}

func TestAnActionDuringAnOutageFailsInTime(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
		memtest.PutForeign(f.store, "orders", "k", true)
		p := f.page()
		p.take()
		st := f.state()
		f.link.Cut(fault.Both)
		began := time.Now()

		code, text := f.post("/evict", order{Lock: "orders", ID: st.Locks[0].Entries[0].ID, Holder: true})

		assert.Equal(t, http.StatusServiceUnavailable, code)
		assert.Contains(t, text, "no entry was evicted")
		assert.LessOrEqual(t, time.Since(began), 11*time.Second)
		f.link.Heal()
		p.close()
	})
}

// TestARetryOfAnEvictionOfUnknownOutcomeDoesNotDenyIt: the answer was lost.
func TestARetryOfAnEvictionOfUnknownOutcomeDoesNotDenyIt(t *testing.T) {
	inBubble(t, ui.Options{AllowEvict: true}, func(f *fixture) {
		memtest.PutForeign(f.store, "orders", "k", true)
		p := f.page()
		p.take()
		st := f.state()
		o := order{Lock: "orders", ID: st.Locks[0].Entries[0].ID, Holder: true}
		sent := false
		f.link.OnSend(func(op fault.Op) {
			if op == fault.Leave && !sent {
				sent = true
				f.link.Cut(fault.Replies)
			}
		})
		code, text := f.post("/evict", o)
		require.Equal(t, http.StatusServiceUnavailable, code, text)
		require.Empty(t, memtest.Entries(f.store, "orders"))
		f.link.Heal()
		time.Sleep(20 * time.Second)
		p.take()

		code, text = f.post("/evict", o)

		assert.Equal(t, http.StatusConflict, code)
		assert.Contains(t, text, "the entry is gone: it has ended by itself, or was evicted before")
		p.close()
	})
}
