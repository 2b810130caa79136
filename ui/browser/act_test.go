package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/ui"
)

// queue is how many entries the service has for a lock.
func (st *site) queue(name string) int { return len(memtest.Entries(st.store, name)) }

func TestEvictingAndAskingAreQuestionsFirst(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.until(`document.querySelectorAll('.card').length >= 3`)

	b.click(".lock-head button", "Ask to yield")
	b.shows("dialog[open]", "Ask the holders to yield?")
	b.shot("dialog-ask")
	b.run(press("hotfix <b>"), press("Enter"))
	b.shows("#toast", "asked the holders to yield")
	b.shows(".asked", "hotfix <b>")
	asks, err := yield.List(t.Context(), st.s, "jobs/nightly")
	require.NoError(t, err)
	require.Len(t, asks, 1)
	assert.Equal(t, "hotfix <b>", asks[0].Reason)
	b.click(".lock-head button", "Withdraw")
	b.shows("#toast", "withdrawn")
	b.until(`!document.querySelector('.asked')`)

	b.click(".card", "batch-2")
	b.shows("dialog[open]", "nightly backup")
	b.click("dialog button", "Evict …")
	b.shows("dialog[open]", "This breaks the lock")
	b.shot("dialog-evict")
	assert.Equal(t, "Keep it", eval[string](b, "document.activeElement.textContent"), "Enter changes nothing")
	b.run(press("Escape"))
	b.until(`!document.querySelector('dialog').open`)
	assert.Equal(t, 5, st.queue("jobs/nightly"))

	b.click(".card", "batch-2")
	b.click("dialog button", "Evict …")
	b.click("dialog button.danger", "Evict")
	b.shows("#toast", "evicted batch-2 pid 812 (nightly backup)")
	assert.Equal(t, 4, st.queue("jobs/nightly"))
	b.shows(".card", "web-1")
	b.until(`document.querySelector('.strip .bar[data-end="gone"]')`)
	b.shot("evicted")
	b.clean(st)
}

// TestAPageActsIfItsAddressHasTheToken: the address is rewritten, and the tab keeps the token.
func TestAPageActsIfItsAddressHasTheToken(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true, Token: "secret-7"})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.until(`document.querySelectorAll('.card').length >= 3`)
	assert.NotContains(t, b.text(".lock-head"), "Ask to yield")

	b = newTab(t, 1280, 1000, "light")
	b.open(st, "#token=secret-7")
	b.until(`location.hash === '#/locks'`)
	b.open(st, "#/lock/jobs%2Fnightly")
	b.click(".lock-head button", "Ask to yield")
	b.shows("dialog[open]", "Ask the holders to yield?")
	b.run(press("Enter"))
	b.shows("#toast", "asked the holders to yield")
	b.clean(st)
}

// TestAWaiterThatHoldsByNowIsNotEvicted: the question was about a waiter.
func TestAWaiterThatHoldsByNowIsNotEvicted(t *testing.T) {
	st := newSite(t, ui.Options{AllowEvict: true})
	p := st.process("web-1", 11, "settle")
	first := p.join("orders", holds(time.Minute))
	st.process("web-2", 12, "settle").join("orders", waits(time.Minute))
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/orders")
	b.click(".card", "web-2")
	b.click("dialog button", "Evict …")
	b.shows("dialog[open]", "A waiter that is evicted joins the queue again")

	p.leave(first)
	b.click("dialog button.danger", "Evict")

	b.shows("#toast", "web-2 pid 12 (settle) holds by now: no entry was evicted")
	assert.Equal(t, 1, st.queue("orders"))
	b.until(`!document.querySelector('dialog').open && document.querySelectorAll('.card').length === 1`)
	b.click(".card", "web-2")
	b.click("dialog button", "Evict …")
	b.shows("dialog[open]", "This breaks the lock")
	b.click("dialog button.danger", "Evict")
	b.shows("#toast", "evicted web-2 pid 12 (settle)")
	assert.Zero(t, st.queue("orders"))
	b.clean(st)
}

func TestAPageThatReadsOnlyOffersNoAction(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.until(`document.querySelectorAll('.card').length >= 3`)
	assert.Zero(t, eval[int](b, `document.querySelectorAll('.lock-head button').length`))
	b.click(".card", "batch-2")
	b.shows("dialog[open]", "fairlock evict --token")
	assert.Zero(t, eval[int](b, `document.querySelectorAll('dialog button.danger').length`))
	assert.Equal(t, 403, eval[int](b, `fetch('evict', {method: 'POST', body: '{}'}).then((r) => r.status)`))
	b.clean(st)
}

// TestAnotherSiteCanDoNothing: a page of another origin tries what it can, and the user is
// "logged in" as far as a browser goes.
func TestAnotherSiteCanDoNothing(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title>")
	}))
	defer evil.Close()
	b := newTab(t, 800, 600, "light")
	b.open(st, "")
	id := eval[string](b, `fetch('state').then((r) => r.json()).then((s) => s.locks.find((l) => l.name === 'jobs/nightly').entries[0].id)`)
	token := eval[string](b, `fetch('state').then((r) => r.json()).then((s) => s.token)`)
	require.NotEmpty(t, token)

	evilTab := newTab(t, 800, 600, "light")
	evilTab.run(navigate(evil.URL))
	body := quote(`{"lock":"jobs/nightly","id":"` + id + `"}`)
	try := func(options string) string {
		return eval[string](evilTab, fmt.Sprintf(`fetch(%s, %s).then((r) => r.text()).catch((e) => 'failed')`, quote(st.url()+"evict"), options))
	}
	assert.Equal(t, "failed", eval[string](evilTab, fmt.Sprintf(`fetch(%s).then((r) => r.text()).catch((e) => 'failed')`, quote(st.url()+"state"))), "it reads no state")
	assert.Equal(t, "failed", try(`{method: 'POST', body: `+body+`}`))
	assert.Equal(t, "failed", try(`{method: 'POST', mode: 'no-cors', body: `+body+`}`))
	assert.Equal(t, "failed", try(`{method: 'POST', body: `+body+`, headers: {'X-Fairlock-Token': `+quote(token)+`}}`), "even with the token")
	framed := fmt.Sprintf(`new Promise((done) => {
		const f = document.createElement('iframe'); f.src = %s; f.onload = () => { try { done(f.contentDocument ? 'seen' : 'blocked') } catch { done('blocked') } }; document.body.append(f);
	})`, quote(st.url()))
	assert.Equal(t, "blocked", eval[string](evilTab, framed))

	assert.Equal(t, 5, st.queue("jobs/nightly"))
}

func TestThePageComesBackAfterAnOutage(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.shows(".card", "batch-2")
	st.link.Cut(fault.Both)

	b.until(`document.body.dataset.state === 'old'`)
	b.shows("#banner", "does not answer since")
	b.shows("#banner", "This is what was seen at")
	b.shows("#announcement", "does not answer since")
	b.shows(".card", "batch-2")
	b.fits()
	b.shot("ui-outage")

	st.link.Heal()
	b.until(`document.body.dataset.state === 'live' && document.querySelector('#banner').hidden`)
	b.shows("#announcement", "The page shows what is now")
	b.clean(st)
}

func TestThePageComesBackAfterItsServer(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 320, 640, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.shows(".card", "batch-2")
	st.stop()

	b.until(`document.body.dataset.state === 'lost'`)
	b.shows("#banner", "This page’s server does not answer since")
	b.shows(".card", "batch-2")
	b.fits()

	st.serve()
	b.until(`document.body.dataset.state === 'live' && document.querySelector('#banner').hidden`)
	b.shows(".card", "batch-2")
	b.click(".card", "batch-2")
	b.click("dialog button", "Evict …")
	b.click("dialog button.danger", "Evict")
	b.shows("#toast", "evicted batch-2") // with the token of the new server
	assert.Equal(t, 4, st.queue("jobs/nightly"))
}

func TestThePageShowsThatItsSessionIsClosed(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.shows(".card", "batch-2")

	require.NoError(t, st.s.Close())

	b.shows("#banner", "This page’s server sends no changes")
	b.shows("#banner", "closed")
	b.shows(".card", "batch-2")
}

func TestThePageFollowsTheQueues(t *testing.T) {
	st := newSite(t, ui.Options{Interval: 200 * time.Millisecond})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "")
	b.shows("#empty", "No lock has a holder or a waiter")
	a, c := st.process("web-1", 1, "a"), st.process("web-2", 2, "c")
	first := a.join("orders", holds(time.Second))
	c.join("orders")
	b.click("#list .row", "orders")
	b.until(`document.querySelectorAll('.card').length === 2`)
	a.leave(first)
	b.until(`document.querySelectorAll('.card').length === 1`)
	b.shows(".card", "web-2 pid 2 (c)")
	b.shows(".card .state", "holder")
	b.until(`document.querySelector('.strip .bar[data-end="gone"]')`)
	eval[bool](b, `(document.querySelector('.history details').open = true)`)
	b.shows(".history table", "released or evicted, or ended with its session")
	require.NoError(t, c.d.Close(t.Context()))
	c.closed = true
	b.shows("#detail", "has no holder and no waiter now")
	b.clean(st)
}
