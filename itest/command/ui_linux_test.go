package command

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// read returns the answer to a GET request.
func read(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(hang.Context(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return string(text)
}

// shows waits until the state of the page at url has a lock with at least so many entries.
func shows(t *testing.T, url, lock string, entries int) {
	t.Helper()
	hang.Until(t, func() bool {
		var s struct {
			Locks []struct {
				Name    string
				Entries []struct{ Key, Host string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(read(t, url+"state")), &s))
		for _, l := range s.Locks {
			if l.Name == lock && len(l.Entries) >= entries {
				return l.Entries[0].Key != "" && l.Entries[0].Host != ""
			}
		}
		return false
	}, "the page does not show it")
}

// openPage opens the events of a page. end closes them.
func openPage(t *testing.T, url string) (end func()) {
	t.Helper()
	req, err := http.NewRequestWithContext(hang.Context(t), http.MethodGet, url+"events", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(line, "retry: "), line)
	return func() { _ = res.Body.Close() }
}

func TestThePageShowsAQueueOfTheService(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "early")
		h, err := mutex.New(s, "x").Lock(hang.Context(t))
		require.NoError(t, err)
		x := begin(t, url, "ui")
		x.out.WaitFor(t, `http://127\.0\.0\.1:\d+/\n`)
		page := strings.TrimSpace(x.out.String())
		defer openPage(t, page)()

		shows(t, page, "x", 1)

		recipetest.Unlock(t, h)
		require.NoError(t, x.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 143, x.code(t))
	})
}

func TestTheDemonstrationOfThePageLeavesNoProcess(t *testing.T) {
	t.Parallel()
	cmd := demo(t, "--ui")
	var stdout, stderr progtest.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	stdout.WaitFor(t, `(?m)^http://127\.0\.0\.1:\d+/$`)
	page := regexp.MustCompile(`(?m)^http://127\.0\.0\.1:\d+/$`).FindString(stdout.String())
	all := children(t, cmd.Process.Pid)
	assert.Len(t, all, 13)
	defer openPage(t, page)()

	shows(t, page, "orders/settle", 1)
	stdout.WaitFor(t, `is stopped for 9s \(SIGSTOP\)`) // a stopped worker cannot end by itself
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))

	assert.Equal(t, 130, code(t, cmd.Wait()), stderr.String())
	assert.False(t, alive(all), "a process survived")
	assert.NotContains(t, stdout.String(), "ended by itself")
}

func TestTheDemonstrationOfThePageEndsByItself(t *testing.T) {
	t.Parallel()
	const length = 10 * time.Second
	cmd := demo(t, "--ui", "--for", length.String())
	var stdout, stderr progtest.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	require.NoError(t, cmd.Start())
	stdout.WaitFor(t, `(?m)^http://127\.0\.0\.1:\d+/$`)
	page := regexp.MustCompile(`(?m)^http://127\.0\.0\.1:\d+/$`).FindString(stdout.String())
	all := children(t, cmd.Process.Pid)
	assert.Len(t, all, 13)
	defer openPage(t, page)() // it ends with the demonstration

	assert.Equal(t, 0, code(t, cmd.Wait()), stderr.String())

	assert.GreaterOrEqual(t, time.Since(began), length)
	assert.False(t, alive(all), "a process survived")
}
