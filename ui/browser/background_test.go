package browser

import (
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/ui"
)

// hidden makes the pages of the tab start in the background. It keeps the connections of the
// page in sources, and its timers of two and ten seconds in timers, where the test sets
// them off.
const hidden = `
Object.defineProperty(Document.prototype, 'hidden', { get: () => true });
window.sources = [];
window.EventSource = class extends EventSource { constructor(url) { super(url); sources.push(this); } };
window.timers = new Map();
const set = setTimeout, clear = clearTimeout;
window.setTimeout = (f, ms) => {
	if (ms !== 2000 && ms !== 10000) return set(f, ms);
	timers.set(ms, f);
	return -ms;
};
window.clearTimeout = (id) => (id < 0 ? timers.delete(-id) : clear(id));
`

func TestAPageInTheBackgroundClosesItsConnection(t *testing.T) {
	st := newSite(t, ui.Options{})
	b := newTab(t, 800, 600, "light")
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hidden})
	b.open(st, "")
	b.until(`timers.has(10000)`)
	eval[bool](b, `(timers.get(10000)(), true)`)
	assert.Equal(t, 2, eval[int](b, `sources.at(-1).readyState`), "closed")

	// The server refuses the page, which has set a timer for its next attempt.
	require.NoError(t, st.s.Close())
	b.run(navigate("about:blank"))
	b.run(navigate(st.url()))
	b.until(`window.timers?.has(2000) && timers.has(10000)`)
	eval[bool](b, `(timers.get(10000)(), true)`)
	assert.False(t, eval[bool](b, `timers.has(2000)`), "there is no next attempt")
}
