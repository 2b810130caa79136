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
