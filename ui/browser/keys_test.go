package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/ui"
)

func TestEverythingIsReachedWithTheKeyboard(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "")
	b.shows("nav", "Deadlocks 1") // its queues were read twice
	focus := func() string {
		return eval[string](b, `(() => { const e = document.activeElement; return e.id || e.className || e.textContent.trim(); })()`)
	}
	var order []string
	for range 6 {
		b.run(press("Tab"))
		order = append(order, focus())
	}
	assert.Equal(t, []string{"skip", "Locks 8", "Deadlocks 1", "Sessions 16", "search", "list"}, order)
	outline := eval[string](b, `(() => { document.querySelector('nav a').focus(); return getComputedStyle(document.activeElement).outlineStyle; })()`)
	assert.Equal(t, "solid", outline, "the focus is visible")

	b.run(press("/"))
	b.until(`document.activeElement.id === 'search'`)
	assert.Empty(t, eval[string](b, `document.activeElement.value`))
	b.run(press("ledger"))
	b.shows("#summary", "Found 2 locks of 8")
	b.run(press("Escape"))
	b.shows("#summary", "8 locks")
	b.run(press("ArrowDown"))
	assert.Equal(t, "list", focus())
	active := func() string {
		return eval[string](b, `document.getElementById(document.querySelector('#list').getAttribute('aria-activedescendant'))?.innerText ?? ''`)
	}
	assert.Contains(t, active(), "jobs/nightly")
	b.run(press("ArrowDown"))
	assert.Contains(t, active(), "account/42")
	b.run(press("End"))
	assert.Contains(t, active(), "scheduler")
	b.run(press("Home"), press("Enter"))
	b.shows(".advice", "batch-2 pid 812")
	assert.Equal(t, "true", eval[string](b, `document.querySelector('#list .active').getAttribute('aria-selected')`))

	eval[bool](b, `(document.querySelector('.cards').focus(), true)`)
	b.run(press("ArrowDown"), press("Enter"))
	b.shows("dialog[open]", "web-1")
	assert.Equal(t, "Close", focus())
	b.run(press("Tab"))
	assert.Equal(t, "danger", focus())
	b.run(press("Escape"))
	b.until(`!document.querySelector('dialog').open`)
	assert.Equal(t, "rows cards", focus(), "the focus is where it was")
	b.run(press("Escape"))
	b.until(`location.hash === '#/locks'`)
	b.until(`document.activeElement.id === 'list'`)
	b.clean(st)
}

// ticks waits until the page has drawn at least one more tick.
func (b *tab) ticks() {
	b.t.Helper()
	eval[bool](b, `import('./model.js').then(({ model }) => new Promise((done) => {
		const until = model.seq + 2;
		const look = () => (model.seq >= until ? done(true) : requestAnimationFrame(look));
		look();
	}))`)
}

// TestTheActiveRowStaysWhileALockIsOpen: ticks come while a user goes through the list.
func TestTheActiveRowStaysWhileALockIsOpen(t *testing.T) {
	st := scene(t, ui.Options{Interval: 200 * time.Millisecond})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.until(`document.querySelector('#list [aria-selected=true]')`)
	eval[bool](b, `(document.querySelector('#list').focus(), true)`)
	b.run(press("ArrowDown"), press("ArrowDown"))
	active := func() string { return b.text("#list .row.active .lock-name") }
	at := active()
	assert.NotEqual(t, "jobs/nightly", at)

	b.ticks()

	assert.Equal(t, at, active())
	b.run(press("Enter"))
	b.shows(".lock-head h2", at)
	assert.Equal(t, at, active())
	eval[bool](b, `(location.hash = '#/lock/gpu', true)`)
	b.until(`document.querySelector('#list .row.active .lock-name').textContent === 'gpu'`)
	b.clean(st)
}

func TestTheSkipLinkMovesTheFocusToTheLocks(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "")
	b.shows("#list .row", "jobs/nightly")
	b.run(press("Tab"))
	assert.Equal(t, "skip", eval[string](b, `document.activeElement.className`))
	b.until(`document.activeElement.getBoundingClientRect().top >= 0`)

	b.run(press("Enter"))

	b.until(`document.activeElement.id === 'list'`)
	b.run(press("Enter"))
	b.shows(".lock-head", "jobs/nightly")
	b.clean(st)
}

func TestEveryElementOfThePageHasAName(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/gpu")
	b.until(`document.querySelectorAll('.card').length >= 2`)
	unnamed := eval[[]string](b, `[...document.querySelectorAll('button, a, input, [role=listbox], section, dialog, meter')]
		.filter((e) => e.id !== 'dialog' && !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')?.textContent.trim()))
		.map((e) => e.outerHTML.slice(0, 80))`)
	assert.Empty(t, unnamed)
	assert.Equal(t, "en", eval[string](b, `document.documentElement.lang`))
	assert.Equal(t, "polite", eval[string](b, `document.querySelector('#announcement').getAttribute('aria-live')`))
	assert.Empty(t, b.text("#announcement"), "a page without problems announces nothing")
	eval[bool](b, `(document.querySelector('#search').value = 'ledger', document.querySelector('#search').dispatchEvent(new Event('input')), true)`)
	b.shows("#announcement", "Found 2 locks")
	counted := eval[string](b, `(() => { const r = document.querySelector('.cards .row'); return r.getAttribute('aria-posinset') + ' of ' + r.getAttribute('aria-setsize'); })()`)
	assert.Equal(t, "1 of 7", counted)
	b.clean(st)
}

func TestNothingMovesWithReducedMotion(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "")
	assert.Equal(t, "beat", eval[string](b, `getComputedStyle(document.querySelector('.dot')).animationName`))
	b.media("prefers-reduced-motion", "reduce")
	assert.Equal(t, "none", eval[string](b, `getComputedStyle(document.querySelector('.dot')).animationName`))
}
