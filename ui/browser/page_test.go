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
