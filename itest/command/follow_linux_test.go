package command

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/yield"
)

func TestWatchPrintsWhatHappens(t *testing.T) {
	withServices(t, watch)
}

func watch(t *testing.T, url string) {
	a := openSession(t, url, "one")
	m := mutex.New(a, "jobs/a")
	_, err := mutex.New(a, "other").Lock(hang.Context(t))
	require.NoError(t, err)
	h, err := m.Lock(hang.Context(t))
	require.NoError(t, err)
	cmd := program(t, "watch", "jobs/", "-o", "jsonl", "--interval", "20ms")
	cmd.Env = append(cmd.Env, "FAIRLOCK_ON="+url)
	var stdout, stderr progtest.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	stdout.WaitFor(t, `"event":"granted"`)

	waiting(t, a, "jobs/a", 2, func(ctx context.Context) {
		if next, err := m.Lock(ctx); err == nil {
			_ = next.Unlock()
		}
	})
	stdout.WaitFor(t, `"event":"queued"`)
	recipetest.Unlock(t, h)
	stdout.WaitFor(t, `(?s)"released".*"(released|gone)"`)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	ended := cmd.Wait()

	assert.Equal(t, 130, code(t, ended))
	assert.Empty(t, stderr.String(), "an interrupt is the normal end")
	var events []string
	tokens := map[string]int64{}
	for line := range bytes.Lines([]byte(stdout.String())) {
		var e schema.Event
		require.NoError(t, json.Unmarshal(line, &e), "%s", line)
		assert.Equal(t, "jobs/a", e.Name)
		events = append(events, e.Event)
		tokens[e.Event] = e.Entry.Token
	}
	// The second hold may be shorter than the time between two reads.
	assert.Regexp(t, `^granted queued released (granted )?(released|gone)$`, strings.Join(events, " "))
	assert.Greater(t, tokens["queued"], int64(h.Token()))
}

func TestWatchContinuesWhenTheServiceAnswersAgain(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	cmd := program(t, "watch", "--interval", "20ms")
	cmd.Env = append(cmd.Env, "FAIRLOCK_ON="+url)
	var stdout, stderr progtest.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	a := openSession(t, url, "one")
	_, err := mutex.New(a, "a").Lock(hang.Context(t))
	require.NoError(t, err)
	stdout.WaitFor(t, `granted +a +.* \(one\), token \d+`)

	proxy := cluster.Member(0).ClientProxy()
	proxy.Refuse(true)
	proxy.Reset()
	stderr.WaitFor(t, `warning: the locks cannot be read since \d\d:\d\d:\d\d: the service does not answer\n`)
	proxy.Refuse(false)
	stderr.WaitFor(t, "the service answers again")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, code(t, cmd.Wait()))
}

func TestTopWithoutATerminalNamesTheAlternative(t *testing.T) {
	t.Parallel()
	assert.Equal(t, result{
		code:   64,
		stderr: "fairlock: top needs a terminal of at least 40 columns and 6 lines: without one, use ls or watch\nRun 'fairlock top --help' for usage.\n",
	}, execute(t, "mem://", "top"))
}

// A session that cannot be closed delays an interrupt by about a second, not by the five that
// the library waits for.
func TestAnInterruptDoesNotWaitForAServiceThatDoesNotAnswer(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "x")
		for _, command := range []string{"watch", "ask"} {
			took := time.Hour
			for range 10 { // another process may stand still, so one quick end is enough
				p, cut := through(t, url)
				r := begin(t, cut, command, "x")
				if command == "ask" {
					_, err := yield.Next(hang.Context(t), h)
					require.NoError(t, err)
				} else {
					r.out.WaitFor(t, "granted")
				}
				p.Hold(fault.Both)

				took = min(took, metronome.Time(func() {
					require.NoError(t, r.Process.Signal(syscall.SIGINT))
					assert.Equal(t, 130, r.code(t), command)
				}))
				if took < 4*time.Second {
					break
				}
			}

			assert.Less(t, took, 4*time.Second, command)
		}
		recipetest.Unlock(t, h)
	})
}
