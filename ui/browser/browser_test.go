package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stepTimeout is how long a browser may take for one step, on a busy machine.
const stepTimeout = time.Minute

// tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // errors of scripts, and what the policy blocked
	requests []string // the addresses that the page has asked for
}

// newTab starts a browser with one tab of a size, in light or dark colours.
func newTab(t *testing.T, width, height int64, scheme string) *tab {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	if program == "" {
		program = "chromium"
	}
	program, err := exec.LookPath(program)
	require.NoError(t, err, "the tests of the page need chromium: apt-get install chromium")
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.WSURLReadTimeout(stepTimeout),
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.record))
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	b.media("prefers-color-scheme", scheme)
	b.size(width, height)
	return b
}

// command sends one command to the browser.
func command[P, R any](b *tab, c cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	r, err := chromedp.Call(ctx, c, params)
	require.NoError(b.t, err)
	return r
}

// media sets a preference of the user.
func (b *tab) media(name, value string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
}

func navigate(url string) chromedp.Action[chromedp.Void] { return chromedp.Navigate(url) }

func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(width, height))
}

// record records problems and the requests of the page.
func (b *tab) record(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("%s %s", e.ExceptionDetails.Text, describe(e.ExceptionDetails.Exception)))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.problems = append(b.problems, e.Entry.Text)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			b.problems = append(b.problems, "console.error")
		}
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *page.EventJavascriptDialogOpening:
		b.problems = append(b.problems, "a dialog of a script: "+e.Message)
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

// run runs steps, which together take at most stepTimeout.
func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// open opens the page, at a part of it such as "#/waits", and waits for its data.
func (b *tab) open(st *site, part string) {
	b.t.Helper()
	b.run(chromedp.Navigate(st.url() + part))
	b.until(`document.body.dataset.state === 'live'`)
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return v
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(stepTimeout)
	for !eval[bool](b, "!!("+expression+")") {
		if time.Now().After(deadline) {
			b.shot("failed")
			require.Fail(b.t, "the page does not come to this", "%s\nit shows:\n%s", expression, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// text returns the text that a selector shows.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", quote(selector)))
}

// shows waits until a selector shows a text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", quote(selector), quote(text)))
}

// press presses keys where the focus is: a named key, or a text. As with a keyboard, a key
// types its character only if no script has prevented it.
func press(keys string) chromedp.Action[chromedp.Void] {
	named := map[string]int64{"End": 35, "Home": 36, "Escape": 27, "Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "PageDown": 34}
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		strokes := strings.Split(keys, "")
		if _, ok := named[keys]; ok {
			strokes = []string{keys}
		}
		for _, key := range strokes {
			p := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Code: key, WindowsVirtualKeyCode: named[key]}
			switch {
			case key == "Enter":
				p.Text = "\r"
			case len(key) == 1:
				p.Text = key
			}
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
				return err
			}
			p.Type, p.Text = input.DispatchKeyEventTypeKeyUp, ""
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// click clicks on the first element that a selector finds and that contains a text.
func (b *tab) click(selector, text string) {
	b.t.Helper()
	found := fmt.Sprintf("[...document.querySelectorAll(%s)].find((e) => e.innerText.includes(%s))", quote(selector), quote(text))
	b.until(found)
	eval[bool](b, "("+found+".click(), true)")
}

// fits checks that the page needs no horizontal scrolling, and that no element sticks out.
func (b *tab) fits() {
	b.t.Helper()
	out := eval[[]string](b, `(() => {
		const wide = document.documentElement.clientWidth;
		const all = [];
		if (document.documentElement.scrollWidth > wide) all.push('the document is ' + document.documentElement.scrollWidth + ' wide');
		for (const e of document.querySelectorAll('body *')) {
			const r = e.getBoundingClientRect();
			if (!r.width || !r.height || e.closest('.scroll-x, .hidden, .skip, .strip, .chips, .more')) continue;
			if (getComputedStyle(e.parentElement).overflow === 'hidden' && getComputedStyle(e.parentElement).textOverflow === 'ellipsis') continue;
			if (r.right > wide + 1 || r.left < -1) all.push(e.tagName + '.' + e.className + ' from ' + r.left + ' to ' + r.right);
			if (e.scrollWidth > e.clientWidth + 1 && e.classList.contains('scroll')) all.push(e.id + ' scrolls to ' + e.scrollWidth);
		}
		return all;
	})()`)
	assert.Empty(b.t, out)
}

// clean checks that no script failed, that the policy stopped nothing, and that the page
// asked only its own server.
func (b *tab) clean(st *site) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(b.t, b.problems)
	for _, r := range b.requests {
		assert.True(b.t, strings.HasPrefix(r, "http://"+st.addr+"/ops/locks/"), r)
	}
}

// shot takes a picture. It is kept where SCREENSHOTS names a folder.
func (b *tab) shot(name string) {
	b.t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string cannot fail
	}
	return string(b)
}
