package browser

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/ui"
)

// attacks are texts that would do something where they are not treated as text.
func attacks() []string {
	return []string{
		`<script>window.hit=1</script>`,
		`<img src=x onerror="window.hit=1">`,
		`"><svg onload=window.hit=1>`,
		`javascript:window.hit=1//`,
		`'-window.hit=1-'`,
		`</bdi></div><iframe srcdoc="<script>parent.hit=1</script>">`,
		"${window.hit=1}{{constructor.constructor('window.hit=1')()}}",
		"\u202egnp.exe\u2066 \u200b\u2028x\x07\x1b[2J\r\n\tend",
		"a\u0300\u0301\u0302\u0303\u0304\u0305 العربية עברית",
		strings.Repeat("W", 512), // the longest name
	}
}

// TestNothingThatAnEntryClaimsIsCode puts each attack into every field that an entry or a
// yield request can carry, and opens all views and dialogs.
func TestNothingThatAnEntryClaimsIsCode(t *testing.T) {
	st := newSite(t, ui.Options{AllowEvict: true, Title: attacks()[0]})
	for i, text := range attacks() {
		p := st.process(text, 100+i, text)
		claim := kind(text, driver.Exclusive, 0)
		p.join(text, claim, waits(time.Hour), having(text, "account"), trace(text))
		p.join(text, claim, value(text), waits(time.Hour))
		ref := p.join("plain", claim, waits(time.Hour), having(text))
		memtest.Overwrite(st.store, "plain", ref.Key, owner.Meta{Kind: text, Host: text, Label: text, Since: time.Now()}.Encode())
		ref = p.join("plain", claim, waits(time.Hour))
		memtest.Overwrite(st.store, "plain", ref.Key, []byte(`{"v":1,"host":"h","pid":`+quote(text)+`}`))
		p.join(driver.AskQueue(text), value(text)) // a yield request with this host and label
		memtest.PutForeign(st.store, text, text, i%2 == 0)
		_, err := yield.Send(t.Context(), st.s, text, text[:min(len(text), 200)])
		assert.NoError(t, err)
	}
	for _, size := range []int64{1280, 320} {
		b := newTab(t, size, 6000, "light")
		b.open(st, "")
		for i := range attacks() {
			b.until(`document.querySelectorAll('#list .row').length >= 5`)
			b.run(press("End"))
			eval[bool](b, `(location.hash = '#/lock/' + encodeURIComponent(`+quote(attacks()[i])+`), true)`)
			b.until(`document.querySelectorAll('.card').length >= 3`)
			b.fits()
			b.until(fmt.Sprintf(`[...document.querySelectorAll('.asked')].some((e) => e.textContent.includes('pid %d'))`, 100+i))
			eval[bool](b, `(document.querySelector('.history details').open = true, document.querySelector('.card').click(), true)`)
			b.until(`document.querySelector('dialog').open`)
			b.fits()
			b.click("dialog button", "Evict …")
			b.shows("dialog[open]", "Evict this entry?")
			b.fits()
			if i == 7 {
				b.shot("hostile")
			}
			b.click("dialog button", "Keep it")
			if i == 0 || i == 9 {
				b.shot("hostile-" + string(rune('a'+i)))
			}
		}
		eval[bool](b, `(location.hash = '#/waits', true)`)
		b.shows("#waits", "deadlock")
		b.fits()
		eval[bool](b, `(location.hash = '#/sessions', true)`)
		b.shows("#sessions", "slack")
		b.fits()
		eval[bool](b, `(document.querySelector('#sessions .row').click(), true)`)
		b.until(`document.querySelector('dialog').open`)
		b.fits()

		assert.False(t, eval[bool](b, `'hit' in window`), "something ran")
		assert.Zero(t, eval[int](b, `document.querySelectorAll('body script, body iframe, body [onerror], body [onload], body svg').length`))
		// Bytes that turn the direction of writing, or that a terminal obeys, are shown quoted.
		assert.False(t, eval[bool](b, `/[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.textContent)`))
		b.clean(st)
	}
}

// TestNothingInAnErrorIsCode: the text of an error can contain what a client has written.
func TestNothingInAnErrorIsCode(t *testing.T) {
	st := newSite(t, ui.Options{AllowEvict: true, Interval: 200 * time.Millisecond})
	st.process("web-1", 1, "a").join("orders", holds(time.Minute))
	b := newTab(t, 320, 3000, "light")
	b.open(st, "#/lock/orders")
	for i, text := range attacks() {
		b.click(".card", "web-1")
		b.click("dialog button", "Evict …")
		b.shows("dialog[open]", "Evict this entry?")
		st.fail.Store("orders", fmt.Errorf("%w: %s", session.ErrRefused, text))
		b.click("dialog button.danger", "Evict")
		b.until(`!document.querySelector('dialog').open`)
		b.shows("#toast", "no entry was evicted: ")
		b.shows("#summary", "1 lock cannot be read: ")
		if i == 0 {
			b.shows(".lock-head", "cannot be read any more: ")
			b.shows(".lock-head", text)
		}
		b.fits()
		st.fail.Store("orders", fmt.Errorf("%w: %s", session.ErrUnavailable, text))
		b.shows("#banner", "The reason: ")
		b.fits()
		st.fail.Delete("orders")
		b.until(`document.querySelector('#banner').hidden`)
	}

	assert.False(t, eval[bool](b, `'hit' in window`), "something ran")
	assert.Zero(t, eval[int](b, `document.querySelectorAll('body script, body iframe, body [onerror], body [onload], body svg').length`))
	assert.Equal(t, 1, st.queue("orders"))
	b.clean(st)
}

// TestANumberThatIsNoProcessIsInNoCommand: "kill -1" would end all that the operator may signal.
func TestANumberThatIsNoProcessIsInNoCommand(t *testing.T) {
	st := newSite(t, ui.Options{})
	p := st.process("db-1", 7, "settle")
	ref := p.join("orders", holds(time.Hour))
	p.join("orders", waits(time.Hour))
	claimed := fmt.Sprintf(`{"v":1,"kind":"mutex","host":"db-1","pid":-1,"since":%d}`, time.Now().Add(-time.Hour).UnixMilli())
	memtest.Overwrite(st.store, "orders", ref.Key, []byte(claimed))
	b := newTab(t, 1280, 800, "light")
	b.open(st, "#/lock/orders")

	b.shows(".advice .message", "db-1 blocks the queue, and has held for 1 h")

	assert.NotContains(t, b.text(".advice"), "kill ")
	assert.NotContains(t, b.text(".advice"), "ps -fp")
	assert.NotContains(t, b.text("body"), "pid -1")
	b.clean(st)
}

// TestTheAdviceAboutADeadlockQuotesNames: the names of its locks turn the direction of writing.
func TestTheAdviceAboutADeadlockQuotesNames(t *testing.T) {
	st := newSite(t, ui.Options{})
	x, y := "\u202egnp.exe", "\u2066y"
	a, c := st.process("web-1", 1, "a"), st.process("web-2", 2, "c")
	a.join(x, holds(time.Minute))
	c.join(y, holds(time.Minute))
	a.join(y, waits(time.Minute), having(x))
	c.join(x, waits(time.Minute), having(y))
	b := newTab(t, 800, 600, "light")
	b.open(st, "#/lock/"+url.PathEscape(x))
	b.shows(".advice", "A deadlock")
	b.shows(".advice", `holds "\u202egnp.exe" and waits for "\u2066y"`)
	assert.False(t, eval[bool](b, `/[\u202a-\u202e\u2066-\u2069]/.test(document.querySelector('.advice').textContent)`))
	b.clean(st)
}

// TestBytesOfOtherProgramsAreQuoted: keys need not be UTF-8. A name or a value that is not is that of
// no lock, or none.
func TestBytesOfOtherProgramsAreQuoted(t *testing.T) {
	st := newSite(t, ui.Options{})
	memtest.PutForeign(st.store, "orders", "\xff\xfe<b>\x00", true)
	memtest.PutForeign(st.store, "\xff\xfename", "k", true)
	st.process("web-1", 11, "leads").join("scheduler", kind("election", driver.Exclusive, 0), value("\xff\xfe<b>"))
	b := newTab(t, 800, 600, "light")
	b.open(st, "#/lock/orders")
	b.shows(".card", `another program's "\xff\xfe<b>\x00"`)
	b.shows("#summary", "2 locks, 0 waiters")
	b.open(st, "#/lock/scheduler")
	b.shows(".card", "web-1 pid 11 (leads)")
	assert.NotContains(t, b.text(".card"), "value")
	b.clean(st)
}

// TestCommandsAreSafeToPaste: a shell takes the name of a lock in a command as one word,
// whatever it is, and the command has nothing that a terminal obeys.
func TestCommandsAreSafeToPaste(t *testing.T) {
	st := newSite(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	b.open(st, "")
	names := append(attacks(), `jobs/nightly`, `it's`, `$(touch /tmp/hit)`, "`touch /tmp/hit`", `a; touch /tmp/hit #`, `\`, `-rf`, `~`, `*`, "a\nb", `größe 東京`, "\x7fend", "'\x1b'")
	for _, name := range names {
		quoted := eval[string](b, `import('./text.js').then((m) => m.quoted(`+quote(name)+`))`)
		assert.NotRegexp(t, `[\x00-\x1f\x7f\x{202a}-\x{202e}\x{2066}-\x{2069}\x{200b}]`, quoted)

		out, err := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+quoted).Output()

		assert.NoError(t, err, quoted)
		assert.Equal(t, name, string(out), quoted)
	}
	assert.Equal(t, "-- -rf", eval[string](b, `import('./text.js').then((m) => m.argument('-rf'))`), "no flag")
	b.clean(st)
}
