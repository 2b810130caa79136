package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

// TestTheAdviceFollowsAHolderThatWaitsElsewhere: killing the holder of the open lock would not
// help the program that holds the last lock of the chain.
func TestTheAdviceFollowsAHolderThatWaitsElsewhere(t *testing.T) {
	st := newSite(t, ui.Options{AllowEvict: true, Command: "fairlock --context prod"})
	web, job, disk := st.process("web-1", 11, "settle"), st.process("batch-2", 12, "backup"), st.process("pod-3", 1, "copy")
	web.join("jobs", holds(47*time.Minute))
	job.join("db", holds(50*time.Minute))
	disk.join("disk", holds(time.Hour))
	web.join("db", waits(40*time.Minute), having("jobs"))
	job.join("disk", waits(45*time.Minute), having("db"))
	for i := range 2 {
		st.process("web-2", 21+i, "settle").join("jobs", waits(time.Duration(41-i)*time.Minute))
	}
	b := newTab(t, 1280, 1200, "light")
	b.open(st, "#/lock/jobs")

	b.shows(".advice .message", "2 entries wait for jobs, the oldest for 41 min")
	b.shows(".advice .message", "web-1 pid 11 (settle) holds it, and itself waits for db, for 40 min")
	b.shows(".advice .message", "batch-2 pid 12 (backup) holds it, and itself waits for disk, for 45 min")
	b.shows(".advice .message", "pod-3 pid 1 (copy) blocks the queue of disk, and has held for 1 h")
	b.shows(".advice", "stop the container pod-3")
	b.shows(".advice", fmt.Sprintf("fairlock --context prod evict --token %d disk", memtest.Entries(st.store, "disk")[0].Token))
	b.until(`!document.querySelector('.advice').innerText.includes('kill ')`)
	b.click(".advice a", "disk")
	b.shows(".lock-head", "disk")
	b.shows(".advice .message", "pod-3 pid 1 (copy) blocks the queue, and has held for 1 h")
	b.fits()
	b.clean(st)
}

// TestTheAdviceOfUnusualQueues computes advice for states that a test would have to wait for.
func TestTheAdviceOfUnusualQueues(t *testing.T) {
	st := newSite(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	b.open(st, "")
	const words = `const min = 60_000, now = 100_000 * min;
		const h = (token, granted, more) => ({ id: token, token, holder: true, host: 'web-' + token, pid: 9, asked: now - granted * min, granted: now - granted * min, ...more });
		const w = (token, asked, more) => ({ id: token, token, host: 'web-' + token, pid: 9, asked: now - asked * min, ...more });
		const f = (token, seen, more) => ({ id: token, token, foreign: true, key: 'k' + token, seen: now - seen * min, ...more });
		const holder = { holder: true }, orphan = { foreign: true, unleased: true, host: '', asked: 0, granted: 0, key: 'o' };
		const link = (owns, waits, m) => ({ in: 'a', for: 'b', owns, waits, host: 'web-' + owns, pid: 9, asked: now - m * min });`
	for _, c := range []struct{ name, a, b, links, want, not string }{
		{name: "waiters of another program", a: `f('1', 12, holder), f('2', 12)`, want: "another program's k1 blocks the queue, and has held for at least 12 min 00 s: 1 entry waits, the oldest for at least 12 min"},
		{name: "that move", a: `f('1', 1, holder), f('2', 12)`, want: "The queue moves, but slowly"},
		{name: "a holder of another program that is seen for a moment", a: `f('1', 1, holder), w('2', 40)`, want: "another program's k1 blocks the queue", not: "moves"},
		{name: "a holder that has recorded no grant yet", a: `h('1', 0, { granted: 0, asked: now - 40 * min, seen: now - 1000 }), w('2', 39)`, want: "The queue moves, but slowly: web-1 pid 9 holds since a moment ago: 1 entry waits", not: "blocks"},
		{name: "in the first read of it", a: `h('1', 0, { granted: 0, asked: now - 40 * min }), w('2', 39)`, want: "The queue moves, but slowly: web-1", not: "blocks"},
		{name: "a holder whose grant the service refuses to record", a: `h('1', 0, { granted: 0, asked: now - 70 * min, seen: now - 12 * min }), w('2', 40)`, want: "web-1 pid 9 blocks the queue, and has held for at least 12 min 00 s: 1 entry waits", not: "moves"},
		{name: "a holder whose clock is ahead", a: `h('1', -5), w('2', 40)`, want: "web-1 pid 9 blocks the queue: 1 entry waits", not: "moves"},
		{name: "an orphan that holds", a: `h('1', 9, orphan), w('2', 9), w('3', 9)`, want: "Place 1 has no session: no program will ever release it, and 2 entries wait behind it."},
		{name: "an orphan behind the blocker", a: `h('1', 9), w('2', 9), w('3', 9, orphan), w('4', 9)`, want: "web-1 pid 9 blocks the queue, and has held for 9 min 00 s: 3 entries wait, the oldest for 9 min 00 s. Place 3 has no session"},
		{name: "a holder that has just begun to wait elsewhere", a: `h('1', 9), w('2', 9)`, b: `h('3', .1), w('4', .1)`, links: `link('1', '4', .1)`, want: "web-1 pid 9 blocks the queue, and has held for 9 min 00 s, and now waits for b"},
		{name: "and the other lock moves", a: `h('1', 9), w('2', 9)`, b: `h('3', .1), w('4', 8)`, links: `link('1', '4', 8)`, want: "The queue of b moves, but slowly: web-3"},
		{name: "and the other lock has an orphan", a: `h('1', 9), w('2', 9)`, b: `h('3', 9, orphan), w('4', 8)`, links: `link('1', '4', 8)`, want: "Place 1 of b has no session"},
		{name: "a link that is over", a: `h('1', 9), w('2', 9)`, b: `h('3', 9), w('5', 8)`, links: `link('1', '4', 8)`, want: "web-1 pid 9 blocks the queue", not: "web-3"},
		{name: "permits of which one may be released", a: `h('1', 9), h('6', 9), w('2', 9)`, b: `h('3', 9), w('4', 8)`, links: `link('1', '4', 8)`, want: "web-1 pid 9 and 1 other holder block the queue", not: "web-3"},
	} {
		limit := 0
		if c.name == "permits of which one may be released" {
			limit = 2
		}
		got := eval[string](b, fmt.Sprintf(`Promise.all([import('./model.js?own'), import('./advice.js')]).then(([{ model, load }, { advice }]) => {
			%s
			load({ seq: 1, status: { at: now }, waits: { links: [%s] }, locks: [
				{ n: 1, name: 'a', at: now, limit: %d, entries: [%s] }, { n: 2, name: 'b', at: now, entries: [%s] },
			] });
			return advice(model.byName.get('a'), now, model).message;
		})`, words, c.links, limit, c.a, c.b))

		assert.Contains(t, got, c.want, c.name)
		if c.not != "" {
			assert.NotContains(t, got, c.not, c.name)
		}
	}
}

// TestNoCommandSignalsMoreThanOneProcess: a number that a client has claimed may be none of a process.
func TestNoCommandSignalsMoreThanOneProcess(t *testing.T) {
	st := newSite(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	b.open(st, "")
	for pid, want := range map[int]int{812: 2, 1: 0, 0: 0, -1: 0, -812: 0} {
		got := eval[[]string](b, fmt.Sprintf(`Promise.all([import('./model.js?own'), import('./advice.js')]).then(([{ model, load }, { advice }]) => {
			const now = 1e9, e = { host: 'db-1', asked: 1, pid: %d };
			const a = { n: 1, name: 'a', at: now, entries: [{ ...e, id: '1', token: '1', holder: true, granted: 1 }, { ...e, id: '2', token: '2' }] };
			load({ seq: 1, status: { at: now }, waits: {}, locks: [a] });
			const blocked = advice(model.byName.get('a'), now, model);
			const step = { in: 'a', for: 'a', owns: '1', waits: '2', ...e };
			load({ seq: 2, status: { at: now }, waits: { deadlocks: [{ steps: [step] }] }, locks: [a] });
			const all = [...blocked.steps, ...advice(model.byName.get('a'), now, model).steps];
			return all.map((s) => s.command ?? '').filter((c) => /^(ps|kill) /.test(c));
		})`, pid))

		assert.Len(t, got, want+min(want, 1), "%d: %v", pid, got) // of a holder that blocks, and of a deadlock
		for _, c := range got {
			assert.Regexp(t, `^(ps -fp|kill) 812$`, c)
		}
	}
}

// TestAHoldOfWhichNoGrantIsRecordedHasATime: the service refuses the record.
func TestAHoldOfWhichNoGrantIsRecordedHasATime(t *testing.T) {
	st := newSite(t, ui.Options{Interval: 200 * time.Millisecond})
	st.process("web-1", 11, "settle").join("orders", waits(time.Hour))
	st.process("web-2", 12, "settle").join("orders", waits(time.Hour))
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/orders")

	b.until(`/^holds for at least ([4-9]\.|\d\d)/.test(document.querySelector('.card .time')?.innerText)`)
	b.shows(".advice .message", "web-1 pid 11 (settle) blocks the queue, and has held for at least")
	b.clean(st)
}

// TestNothingIsKnownBeforeTheFirstAnswer: the page is opened in an outage.
func TestNothingIsKnownBeforeTheFirstAnswer(t *testing.T) {
	st := newSite(t, ui.Options{})
	st.process("web-1", 11, "settle").join("orders", holds(time.Minute))
	st.link.Cut(fault.Both)
	b := newTab(t, 1280, 800, "light")

	b.run(chromedp.Navigate(st.url() + "#/lock/orders"))

	b.shows("#banner", "does not answer since")
	b.shows("#detail", "orders is not read yet")
	b.shows("#summary", "Not read yet")
	b.shows("#empty", "The queues are not read yet")
	b.click("nav a", "Deadlocks")
	b.shows("#waits", "Not read yet")
	assert.NotContains(t, b.text("#waits"), "No deadlock")
	b.click("nav a", "Sessions")
	b.shows("#sessions", "Not read yet")
	st.link.Heal()
	b.click("nav a", "Locks")
	b.shows("#list .row", "orders")
	b.shows("#summary", "1 lock, 0 waiters")
	b.clean(st)
}

// TestAQueueThatCannotBeReadIsNamed: the others are shown.
func TestAQueueThatCannotBeReadIsNamed(t *testing.T) {
	st := newSite(t, ui.Options{})
	for _, name := range []string{"gpu", "orders"} {
		memtest.PutForeign(st.store, name, "k", true)
	}
	st.fail.Store("gpu", fmt.Errorf("%w: a record's nodes are damaged", session.ErrRefused))
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/gpu")

	b.shows("#list .row", "orders")
	b.shows("#summary", `1 lock, 0 waiters; 1 lock cannot be read: session: queue "gpu": refused by the service: a record's nodes are damaged`)
	b.shows("#detail", `gpu cannot be read: session: queue "gpu": refused by the service`)
	b.fits()
	st.fail.Delete("gpu")
	b.shows("#list .row", "gpu")
	b.shows("#summary", "2 locks, 0 waiters")
	st.fail.Store("gpu", session.ErrDenied)
	b.shows(".lock-head", "cannot be read any more")
	b.clean(st)
}

// TestAHolderThatTheLoginMayNotReadIsNamed: its entry has no card, and the lock is not free.
func TestAHolderThatTheLoginMayNotReadIsNamed(t *testing.T) {
	st := newSite(t, ui.Options{Interval: 200 * time.Millisecond})
	for lock, key := range map[string]string{"orders": "k-1", "secret": "k-2"} {
		memtest.PutForeign(st.store, lock, key, true)
		st.hide.Store(key, true)
	}
	st.process("web-1", 11, "settle").join("orders", waits(time.Hour))
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/orders")

	b.shows(".advice .message", "An entry holds that this login may not read: k-1, and 1 entry waits, the oldest for 1 h")
	b.shows(".advice", "fairlock who orders")
	b.shows(".lock-head", "a holder that cannot be read")
	b.shows(".lock-head", "1 entry that this login may not read is in the queue, without a card: k-1")
	b.shows("#list .row", "a holder that cannot be read")
	b.click("#list .row", "secret")
	b.shows(".lock-head", "1 entry that this login may not read is in the queue, without a card: k-2")
	b.shows(".advice .message", "An entry holds that this login may not read: k-2.")
	b.fits()
	st.store.Delete("secret", "k-2")
	b.shows("#detail", "secret has no holder and no waiter now")
	b.clean(st)
}
