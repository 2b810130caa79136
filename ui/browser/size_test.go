package browser

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/ui"
)

// metrics are the sums of the page's work so far, in seconds, and other figures of Chromium.
func (b *tab) metrics() map[string]float64 {
	b.t.Helper()
	all := map[string]float64{}
	for _, m := range command(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		all[m.Name] = m.Value
	}
	return all
}

// TestAThousandLocksAndTenThousandWaitersStaySmooth: only visible rows are in the document,
// and a tick takes a small part of a second.
func TestAThousandLocksAndTenThousandWaitersStaySmooth(t *testing.T) {
	const locks, each, turns = 1000, 10, 10
	st := newSite(t, ui.Options{})
	workers := make([]*process, 500)
	for i := range workers {
		workers[i] = st.process(fmt.Sprintf("web-%03d", i), 1000+i, "settle orders")
	}
	heads := make([][]driver.Ref, locks)
	owner := func(i, j int) *process { return workers[(i*7+j*13)%len(workers)] }
	for i := range locks {
		for j := range each + 1 {
			heads[i] = append(heads[i], owner(i, j).join(fmt.Sprintf("orders/customer-%04d", i), waits(time.Duration(i*each+j)*time.Second)))
		}
	}
	b := newTab(t, 1280, 800, "light")
	command(b, performance.Enable, performance.EnableParams{})
	b.open(st, "")
	b.shows("#summary", "1\u202f000 locks, 10\u202f000 waiters")
	assert.Less(t, eval[int](b, `document.querySelectorAll('*').length`), 600, "elements in the document")
	state, packed := st.size(t, "state", false), st.size(t, "state", true)
	t.Logf("the whole state: %d bytes, %d compressed", state, packed)
	st.quiet(b)

	// In each second one lock in ten passes on, and its old holder joins again.
	before, bytes := b.metrics(), 0
	events := st.listen(t)
	for turn := range turns {
		began := time.Now()
		for i := turn % 10; i < locks; i += 10 {
			owner(i, 0).leave(heads[i][0])
			heads[i] = append(heads[i][1:], owner(i, 0).join(fmt.Sprintf("orders/customer-%04d", i)))
		}
		time.Sleep(time.Second - time.Since(began))
	}
	after := b.metrics()
	bytes = events()
	t.Logf("each second 100 hand-offs: %d bytes of ticks, %.1f ms of script, %.1f ms of all work on the page; heap %.1f MB", bytes/turns,
		(after["ScriptDuration"]-before["ScriptDuration"])/turns*1000, (after["TaskDuration"]-before["TaskDuration"])/turns*1000, after["JSHeapUsedSize"]/1e6)
	assert.Less(t, (after["ScriptDuration"]-before["ScriptDuration"])/turns, 0.5, "a page that is busy for half of the time is not smooth, on any machine")

	// Scrolling through all of it draws no more than what is visible.
	before = b.metrics()
	most := eval[int](b, `new Promise((done) => {
		const s = document.querySelector('#list-scroll');
		let most = 0, steps = 0;
		const step = () => {
			most = Math.max(most, document.querySelectorAll('#list .row').length);
			s.scrollTop += 640;
			if (++steps < 100) requestAnimationFrame(step); else done(most);
		};
		step();
	})`)
	after = b.metrics()
	t.Logf("100 pictures of scrolling: %.1f ms of script each, at most %d rows in the document", (after["ScriptDuration"]-before["ScriptDuration"])*10, most)
	assert.LessOrEqual(t, most, 40)
	eval[bool](b, `(document.querySelector('#search').value = 'customer-0777', document.querySelector('#search').dispatchEvent(new Event('input')), true)`)
	b.shows("#summary", "Found 1 lock of 1\u202f000")
	b.clean(st)
}

func TestAQueueOfTenThousandStaysSmooth(t *testing.T) {
	const entries, turns = 10_000, 5
	st := newSite(t, ui.Options{})
	workers := make([]*process, 100)
	for i := range workers {
		workers[i] = st.process(fmt.Sprintf("web-%03d", i), 1000+i, "settle orders")
	}
	var queue []driver.Ref
	for i := range entries {
		queue = append(queue, workers[i%len(workers)].join("orders", waits(time.Duration(entries-i)*time.Second)))
	}
	b := newTab(t, 1280, 800, "light")
	command(b, performance.Enable, performance.EnableParams{})
	b.open(st, "#/lock/orders")
	b.shows(".facts", "9\u202f999 waiters")
	st.quiet(b)
	before := b.metrics()
	events := st.listen(t)
	for i := range turns {
		workers[i%len(workers)].leave(queue[i])
		time.Sleep(time.Second)
	}
	after := b.metrics()
	t.Logf("each second one hand-off: %d bytes of ticks, %.1f ms of script, %.1f ms of all work on the page", events()/turns,
		(after["ScriptDuration"]-before["ScriptDuration"])/turns*1000, (after["TaskDuration"]-before["TaskDuration"])/turns*1000)
	assert.Less(t, (after["ScriptDuration"]-before["ScriptDuration"])/turns, 0.5)
	eval[bool](b, `(document.querySelector('#detail').scrollTop = 1e9, true)`)
	b.until(`[...document.querySelectorAll('.card .place')].some((e) => e.textContent === '9995')`)
	assert.LessOrEqual(t, eval[int](b, `document.querySelectorAll('.card').length`), 30)
	b.clean(st)
}

// quiet waits until the page has nothing to do.
func (st *site) quiet(b *tab) {
	b.t.Helper()
	b.until(`new Promise((done) => requestIdleCallback(() => done(true)))`)
	time.Sleep(2 * time.Second)
}

// size is how long an answer of the page's server is.
func (st *site) size(t *testing.T, path string, packed bool) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, st.url()+path, nil)
	require.NoError(t, err)
	if packed {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return int(n)
}

// listen opens one more page. bytes ends it, and returns how many bytes came.
func (st *site) listen(t *testing.T) (bytes func() int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, st.url()+"events", nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	counted := make(chan int, 1)
	go func() {
		n, _ := io.Copy(io.Discard, res.Body) // it ends when the body is closed
		counted <- int(n)
	}()
	return func() int {
		_ = res.Body.Close()
		return <-counted
	}
}

// TestTwoHundredPagesOverTheNetwork: each gets every tick, and nothing is left of them.
func TestTwoHundredPagesOverTheNetwork(t *testing.T) {
	const pages, turns = 200, 5
	st := newSite(t, ui.Options{})
	p := st.process("web-1", 1, "settle")
	heads := make([]driver.Ref, 1000)
	for i := range heads {
		heads[i] = p.join(fmt.Sprintf("orders/customer-%04d", i))
		for range 10 {
			p.join(fmt.Sprintf("orders/customer-%04d", i))
		}
	}
	before := runtime.NumGoroutine()
	bytes := make([]func() int, pages)
	for i := range bytes {
		bytes[i] = st.listen(t)
	}
	time.Sleep(5 * time.Second) // until all is read
	began := cpu(t)
	for turn := range turns {
		for i := turn; i < len(heads); i += 10 {
			p.leave(heads[i])
		}
		time.Sleep(time.Second)
	}
	t.Logf("%d pages, 100 hand-offs a second: %.0f ms of processor a second, for the service in memory, the server and all its clients",
		pages, float64((cpu(t)-began).Milliseconds())/turns)
	for _, b := range bytes {
		assert.Greater(t, b(), 50_000)
	}
	hang.Until(t, func() bool { return runtime.NumGoroutine() <= before+5 }, "goroutines that pages have left")
}

// cpu is the time that this process has used of processors.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
