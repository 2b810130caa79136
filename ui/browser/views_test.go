package browser

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/ui"
)

func TestAnOperatorFindsOutWhoBlocksAQueueAndWhatToDo(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "")

	b.shows("#list .row", "jobs/nightly")
	b.shows("#count-waits", "1")
	b.click("#list .row", "jobs/nightly")

	b.shows(".advice", "batch-2 pid 812 (nightly backup) blocks the queue, and has held for 47 min")
	b.shows(".advice", "4 entries wait, the oldest for 41 min")
	b.shows(".advice", "fairlock ask --reason 'please release' jobs/nightly")
	b.shows(".advice", "fairlock evict --token")
	b.shows(".card", "batch-2 pid 812 (nightly backup)")
	b.shows(".card", "outlives its owner by 15 s at most")
	b.until(`document.querySelector('.strip .bar')`)
	b.shot("ui-light")
	b.fits()

	b.size(1280, 1600) // so that the whole queue is visible
	b.click("#list .row", "gpu")
	b.until(`document.querySelectorAll('.card').length === 7`)
	assert.Contains(t, b.text(".facts"), "7 of 8 permits held")
	b.until(`[...document.querySelectorAll('.card.with')].length === 4`)
	b.shot("gpu")

	b.size(1280, 800)
	b.click("nav a", "Deadlocks")
	b.shows("#waits", "1 deadlock")
	b.shows("#waits", "ledger-1 pid 77 (transfer)")
	b.shot("ui-deadlock")
	b.fits()
	b.click("nav a", "Sessions")
	b.shows("#sessions", "slack")
	slack := eval[[]float64](b, `(() => { const m = document.querySelector('#sessions meter'); return [m.value, m.max]; })()`)
	assert.InDelta(t, 7500, slack[0], 1600, "a trust window of 9 s, of which a renewal leaves two thirds")
	assert.InDelta(t, 10_000, slack[1], 0)
	assert.Regexp(t, `slack [5-9]\.\d s of a TTL of 10 s`, b.text("#sessions .slack"))
	b.shot("sessions")
	b.fits()
	b.clean(st)
}

func TestThePageInTheDark(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 1280, 800, "dark")
	b.open(st, "#/lock/jobs%2Fnightly")
	b.shows(".advice", "blocks the queue")
	b.until(`document.querySelector('.strip .bar')`)
	b.shot("ui-dark")
	colours := func() []string {
		return eval[[]string](b, `['body', '.advice', '.lock-head h2'].flatMap((s) => {
			const c = getComputedStyle(document.querySelector(s));
			return s.endsWith('h2') ? [c.color] : [c.backgroundColor];
		})`)
	}
	assert.Equal(t, []string{"rgb(15, 20, 26)", "rgb(23, 30, 39)", "rgb(230, 235, 241)"}, colours(), "page, panel and text")
	b.media("prefers-color-scheme", "light")
	assert.Equal(t, []string{"rgb(244, 245, 247)", "rgb(255, 255, 255)", "rgb(22, 32, 44)"}, colours())
	b.clean(st)
}

func TestThePageOnAPhone(t *testing.T) {
	st := scene(t, ui.Options{AllowEvict: true})
	b := newTab(t, 320, 640, "light")
	b.open(st, "")
	b.shows("#list .row", "jobs/nightly")
	b.fits()
	b.shot("ui-320-list")
	b.click("#list .row", "jobs/nightly")
	b.shows(".advice", "blocks the queue")
	b.fits()
	b.shot("ui-320")
	b.size(320, 1800)
	b.fits()
	b.shot("ui-320-long")
	b.size(320, 640)
	assert.False(t, eval[bool](b, `!!document.querySelector('#list').offsetParent`), "the open lock has the whole page")
	b.click(".lock-head a.back", "All locks")
	b.until(`location.hash === '#/locks' && document.querySelector('#list').offsetParent`)
	b.fits()
	b.click("nav a", "Deadlocks")
	b.shows("#waits", "1 deadlock")
	b.fits()
	b.shot("ui-320-waits")
	b.click("nav a", "Sessions")
	b.shows("#sessions", "slack")
	b.fits()
	b.shot("ui-320-sessions")
	b.clean(st)
}

// TestALinkToALockThatIsGone: the page is opened there, before any data has come.
func TestALinkToALockThatIsGone(t *testing.T) {
	st := scene(t, ui.Options{})
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/jobs%2Fweekly")
	b.shows("#detail", "jobs/weekly has no holder and no waiter now")
	b.clean(st)
}

// TestAGapIsNoHold: the last page was closed in the evening while a process held, and the next one
// was opened in the morning. What was not seen counts for no time.
func TestAGapIsNoHold(t *testing.T) {
	st := newSite(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	b.open(st, "")

	got := eval[[]string](b, `Promise.all([import('./history.js'), import('./model.js')]).then(([{ History, hints }, { model }]) => {
		const h = new History(), s = 1000, night = 14 * 3600 * s, end = night + 100 * s, gap = 3 * model.interval + 2000;
		const hold = (token, label, from, seen, to) => ({ token, label, host: label, from, seen, to });
		const lock = { at: end, waiters: 3, entries: [{ holder: true }, {}, {}, {}] };
		const holds = [
			hold('1', 'web-2', 1 * s, 9 * s, 10 * s), hold('2', 'web-3', 10 * s, 19 * s, 20 * s), // ten seconds each
			hold('3', 'web-1', 20 * s, 22 * s, night), // two, and then no page was open
			hold('4', 'web-2', night + 10 * s, night + 19 * s, night + 20 * s), hold('5', 'web-3', night + 20 * s, night + 30 * s - gap, night + 30 * s),
			hold('6', 'web-2', night + 30 * s, end),
		];
		const draw = (now) => {
			h.draw(holds, now, end);
			h.details.open = true;
			h.draw(holds, now, end);
			return [...h.table.rows].map((r) => r.cells[3].textContent).reverse().join(', ');
		};
		return [draw(end), h.bars.has('3') ? 'drawn' : 'not drawn', hints(holds, lock, end).join(' '), draw(end + 300 * s), h.bars.get('6')?.title ?? ''];
	})`)

	assert.Equal(t, "9.0 s, 10 s, at least 2.0 s, 10 s, 10 s, 1 min 10 s", got[0])
	assert.Equal(t, "not drawn", got[1], "it was seen in the evening")
	assert.Contains(t, got[2], "The median hold takes 10 s, the longest 10 s, of 4 that were seen to end.")
	assert.Contains(t, got[2], "At this pace the last of 3 waiters holds in about 30 s.")
	assert.Contains(t, got[2], "web-2 held for 80 % of that time.")
	assert.Equal(t, "9.0 s, 10 s, at least 2.0 s, 10 s, 10 s, at least 1 min 10 s", got[3], "an outage of five minutes")
	assert.Contains(t, got[4], "seen last at")
}
