package browser

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/ui"
)

func TestAnAddressWithoutAViewShowsTheLocks(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 800, "light")
	for _, part := range []string{"#/nothing", "#/constructor", "#/lock/%ff"} {
		b.open(st, part)
		b.shows("#list .row", "jobs/nightly")
	}
	b.clean(st)
}

// TestPlacesInACardFollowTheQueue: a reader names the place of the reader with which it is
// granted, and an entry ahead of both leaves.
func TestPlacesInACardFollowTheQueue(t *testing.T) {
	st := newSite(t, ui.Options{Interval: 200 * time.Millisecond})
	p := st.process("web-1", 1, "a")
	first := p.join("config", kind("rwlock", driver.Exclusive, 0), holds(time.Minute))
	p.join("config", kind("rwlock", driver.Exclusive, 0))
	for range 2 {
		p.join("config", kind("rwlock", driver.Shared, 0))
	}
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/config")
	b.shows(".card.with", "let in together with place 3")
	p.leave(first)
	b.shows(".card.with", "let in together with place 2")
	b.clean(st)
}

// TestAWholeLockCountsAsChanged: the open lock has its history loaded again when the lock
// changes, also if the change comes as all entries of a short queue.
func TestAWholeLockCountsAsChanged(t *testing.T) {
	st := newSite(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	b.open(st, "")

	changed := eval[bool](b, `import('./model.js?own').then(({ model, load, apply }) => {
		const lock = { n: 1, name: 'a', whole: true };
		load({ seq: 1, status: {}, locks: [{ ...lock, entries: [{ id: 'x' }] }] });
		const before = model.locks.get(1).rev;
		apply({ seq: 2, status: {}, locks: [{ ...lock, entries: [{ id: 'y' }] }] });
		return model.locks.get(1).rev !== before;
	})`)

	assert.True(t, changed)
}

// TestAReasonThatIsRefusedIsNotLost: the field counts characters and the server counts bytes.
func TestAReasonThatIsRefusedIsNotLost(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.click(".lock-head button", "Ask to yield")
	reason := strings.Repeat("ä", 150)
	eval[bool](b, fmt.Sprintf(`(document.querySelector('#reason').value = %s, true)`, quote(reason)))

	b.run(press("Enter"))

	b.shows("dialog[open] [role=alert]", "300 bytes")
	assert.Equal(t, reason, eval[string](b, `document.querySelector('#reason').value`))
	eval[bool](b, `(document.querySelector('#reason').value = 'hotfix', true)`)
	b.run(press("Enter"))
	b.shows("#toast", "asked the holders to yield")
	b.until(`!document.querySelector('dialog').open`)
	b.clean(st)
}

// TestADeadlockEndsAsThePageSays: a waiter that is evicted joins its queue again, so the page names
// an entry that holds.
func TestADeadlockEndsAsThePageSays(t *testing.T) {
	st := newSite(t, ui.Options{AllowEvict: true})
	a, c := st.process("web-1", 1, "a"), st.process("web-2", 2, "c")
	a.join("x", holds(time.Minute))
	c.join("y", holds(time.Minute))
	a.join("y", waits(time.Minute), having("x"))
	c.join("x", waits(time.Minute), having("y"))
	b := newTab(t, 1280, 800, "light")
	for _, part := range []string{"#/waits", "#/lock/x"} {
		b.open(st, part)
		b.shows("main", "fairlock evict --token")
		said := regexp.MustCompile(`fairlock evict --token (\d+) (\w)`).FindStringSubmatch(b.text("main"))
		require.Len(t, said, 3, part)
		assert.Equal(t, said[1], strconv.FormatInt(memtest.Entries(st.store, said[2])[0].Token, 10), part)
	}
	b.clean(st)
}

// TestACommandIsCopied: by the browser, or where that is refused, by the user: the text is selected.
func TestACommandIsCopied(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.shows(".advice", "fairlock ask")
	const want = "fairlock ask --reason 'please release' jobs/nightly"
	find := `[...document.querySelectorAll('.advice .command')].find((e) => e.firstChild.textContent === ` + quote(want) + `).lastChild`
	clipboard := func(value string) {
		eval[bool](b, `(Object.defineProperty(navigator, 'clipboard', { configurable: true, value: `+value+` }), getSelection().removeAllRanges(), true)`)
	}
	clipboard(`{ writeText: async (text) => (window.copied = text) }`)
	click := `(` + find + `.focus(), ` + find + `.click(), true)` // as with a mouse; while it has the focus it stays
	eval[bool](b, click+` && new Promise((done) => {
		const look = () => (`+find+`.textContent === 'Copied' ? done(true) : requestAnimationFrame(look));
		look();
	})`)
	assert.Equal(t, want, eval[string](b, `window.copied`))
	b.until(find + `.textContent === 'Copy'`)
	assert.Empty(t, eval[string](b, `getSelection().toString()`))

	for _, refused := range []string{`undefined`, `{ writeText: () => Promise.reject(new Error('denied')) }`} { // the first on a page without TLS
		clipboard(refused)
		eval[bool](b, click)
		b.until(`getSelection().toString() === ` + quote(want))
		assert.Equal(t, "Copy", eval[string](b, find+`.textContent`))
	}
	b.clean(st)
}

func TestAYieldRequestThatIsCancelledIsNotSent(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.click(".lock-head button", "Ask to yield")
	b.shows("dialog[open]", "Ask the holders to yield?")

	b.click("dialog button", "Cancel")

	b.until(`!document.querySelector('dialog').open`)
	b.ticks()
	asks, err := yield.List(t.Context(), st.s, "jobs/nightly")
	require.NoError(t, err)
	assert.Empty(t, asks)
	b.shows(".lock-head button", "Ask to yield")
	b.clean(st)
}

func TestSessionsAreFound(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 1000, "light")
	b.open(st, "#/sessions")
	b.shows("#sessions .summary", "16 sessions with entries")
	search := func(text string) {
		eval[bool](b, `(() => { const s = document.querySelector('#sessions input'); s.value = `+quote(text)+`; s.dispatchEvent(new Event('input')); return true; })()`)
	}
	search("TRANSFER")
	b.shows("#sessions .summary", "2 sessions with entries")
	b.until(`document.querySelectorAll('#sessions .row').length === 2`)
	b.shows("#sessions .row", "(transfer)")
	b.click("#sessions .row", "ledger-1")
	b.shows("dialog[open]", "account/17 holds")
	b.click("dialog a", "account/42")
	b.shows(".lock-head", "account/42")
	assert.False(t, eval[bool](b, `document.querySelector('dialog').open`))
	b.click("nav a", "Deadlocks")
	b.click("#waits .ring a", "account/17")
	b.shows(".lock-head", "account/17")
	b.click("nav a", "Sessions")
	search("nothing has this")
	b.shows("#sessions .summary", "0 sessions with entries")
	search("")
	b.shows("#sessions .summary", "16 sessions with entries")
	b.clean(st)
}
