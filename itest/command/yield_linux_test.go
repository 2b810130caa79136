package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

func TestAYieldRequestOnlyWarnsByDefault(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		file := filepath.Join(t.TempDir(), "status")
		r := prepared(t, url, "run", "--status-fd", "3", "x", "--", "sh", "-c", "echo ready; read line; exit 4")
		status, err := os.Create(file)
		require.NoError(t, err)
		r.ExtraFiles = []*os.File{status}
		stdin, err := r.StdinPipe()
		require.NoError(t, err)
		r.start(t)
		r.out.WaitFor(t, "ready")

		var got result
		wait := 10 * time.Second
		for ; ; wait += 10 * time.Second { // on a busy machine, it may not have read the queue by then
			got = execute(t, url, "ask", "--reason", "hotfix\x1b[2J", "-w", wait.String(), "x")
			if got.stdout != "" || wait > hang.Guard {
				break
			}
		}

		assert.Equal(t, 75, got.code)
		assert.Equal(t, "fairlock: no holder of \"x\" has yielded within "+wait.String()+": one that was started with --on-ask warn, the default, never does, "+
			"nor does a program that does not subscribe (Hold.Asked)\n", got.stderr)
		assert.Regexp(t, `^\S+  granted   x  \S+ pid \d+ \(sh\), token \d+\n$`, got.stdout)
		r.err.WaitFor(t, `^fairlock: x: asked to yield by \S+ pid \d+: hotfix\?\[2J\n`)
		require.NoError(t, stdin.Close())
		assert.Equal(t, 4, r.code(t))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var states []string
		for _, l := range rows(string(text)) {
			var s schema.Status
			require.NoError(t, json.Unmarshal([]byte(l), &s))
			states = append(states, s.State)
			if s.State == schema.StateAsked {
				assert.Equal(t, "hotfix\x1b[2J", s.Ask.Reason)
				assert.Positive(t, s.Ask.PID)
			}
		}
		assert.Equal(t, []string{"held", "asked", "released"}, slices.Compact(states))
	})
}

func TestAYieldRequestStopsTheCommandWithOnAskStop(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		r := begin(t, url, "run", "--on-ask", "stop", "x", "--", "sh", "-c", `trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
		r.out.WaitFor(t, "ready")
		next := begin(t, url, "run", "x", "--", "echo", "mine")
		hasEntries(t, s, "x", 2)

		got := execute(t, url, "ask", "--until-yielded", "-o", "jsonl", "x")

		assert.Equal(t, 0, got.code, got.stderr)
		assert.Equal(t, 80, r.code(t))
		assert.Equal(t, "ready\ngot TERM\n", r.out.String())
		assert.Contains(t, r.err.String(), "fairlock: x: was asked to yield, and stopped the command\n")
		var events []string
		for _, l := range rows(got.stdout) {
			var e schema.Event
			require.NoError(t, json.Unmarshal([]byte(l), &e))
			events = append(events, e.Event)
		}
		assert.Equal(t, []string{"granted", "released"}, events[:2])
		assert.Equal(t, 0, next.code(t))
		assert.Equal(t, "mine\n", next.out.String())
		hasEntries(t, s, "x", 0)
	})
}

func TestAHoldWithoutACommandYieldsWithOnAskStop(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		r := prepared(t, url, "hold", "--on-ask", "stop", "h")
		_, err := r.StdinPipe()
		require.NoError(t, err)
		r.start(t)
		r.out.WaitFor(t, "\n")
		asks := begin(t, url, "ask", "h")

		assert.Equal(t, 80, r.code(t))
		assert.Regexp(t, `h: asked to yield by \S+ pid \d+\nfairlock: h: was asked to yield, and released the lock\n$`, lateRelease.ReplaceAllString(r.err.String(), ""))
		asks.out.WaitFor(t, `released +h `)
		require.NoError(t, asks.Process.Signal(syscall.SIGINT))
		assert.Equal(t, 0, asks.code(t), "the request was answered")
		hasEntries(t, s, "h", 0)
	})
}

// Otherwise a request that is not withdrawn would make two candidates yield again and again.
func TestACandidateYieldsOnceToAYieldRequest(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		r := begin(t, url, "elect", "--on-ask", "stop", "post", "--", "sh", "-c", "echo led; exec sleep 1000")
		r.out.WaitFor(t, "led\n")
		asks := begin(t, url, "ask", "post")

		r.err.WaitFor(t, `post: was asked to yield, and stopped the command; campaigns again\n(.*\n)*.*leads, with token \d+\n`)
		r.out.WaitFor(t, "led\nled\n")
		asks.out.WaitFor(t, `(?s)granted.*released.*granted`)
		again := begin(t, url, "ask", "post") // another request, which is delivered again
		r.out.WaitFor(t, "led\nled\nled\n")

		for _, x := range []*running{again, asks, r} {
			require.NoError(t, x.Process.Signal(syscall.SIGTERM))
		}
		assert.Equal(t, 143, r.code(t))
		assert.Equal(t, "led\nled\nled\n", r.out.String())
		hasEntries(t, s, "post", 0)
	})
}

func TestAYieldRequestEndsAsTheHelpDescribes(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "jobs/a")
		assert.Equal(t, result{code: 1, stderr: "fairlock: lock \"job/a\" has no holder and no waiter: did you mean \"jobs/a\"?\n"}, execute(t, url, "ask", "job/a"))
		assert.Equal(t, 64, execute(t, url, "ask", "--reason", fmt.Sprintf("%0257d", 0), "jobs/a").code)
		r := begin(t, url, "ask", "--reason", "please", "jobs/a")
		a, err := yield.Next(hang.Context(t), h)
		require.NoError(t, err)
		assert.Equal(t, "please", a.Reason)

		require.NoError(t, r.Process.Signal(syscall.SIGINT))

		assert.Equal(t, 130, r.code(t))
		assert.Empty(t, r.err.String())
		recipetest.Unlock(t, h)
		hasEntries(t, s, "jobs/a", 0)
	})
}

func TestWhoShowsYieldRequests(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "ops")
		h := holdOf(t, s, "x")
		assert.NotContains(t, execute(t, url, "who", "x").stdout, "asked")
		withdraw, err := yield.Send(hang.Context(t), s, "x", "hotfix\x1b[2J")
		require.NoError(t, err)
		_, err = yield.Send(hang.Context(t), s, "x", "")
		require.NoError(t, err)

		got := execute(t, url, "who", "x")

		require.Equal(t, 0, got.code, got.stderr)
		r := rows(got.stdout)
		require.Len(t, r, 5)
		since := `asked to yield by \S+ pid \d+ \(ops\) since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000`
		assert.Regexp(t, "^"+since+`: hotfix\?\[2J$`, r[3])
		assert.Regexp(t, "^"+since+"$", r[4])
		var l schema.Queue
		require.NoError(t, json.Unmarshal([]byte(execute(t, url, "who", "-o", "json", "x").stdout), &l))
		require.Len(t, l.Asks, 2)
		assert.Equal(t, []any{"hotfix\x1b[2J", "ops", os.Getpid()}, []any{l.Asks[0].Reason, l.Asks[0].Label, l.Asks[0].PID})
		if err := withdraw(); !errors.Is(err, session.ErrReleasePending) { // pending on a machine that stands still
			require.NoError(t, err)
		}
		hang.Until(t, func() bool {
			asks, err := yield.List(t.Context(), s, "x")
			return err == nil && len(asks) == 1
		}, "the request is not withdrawn")
		require.Len(t, rows(execute(t, url, "who", "x").stdout), 4, "header, titles, holder, the other request")
		recipetest.Unlock(t, h)
		hasEntries(t, s, "x", 0)
		assert.Equal(t, 1, execute(t, url, "who", "x").code, "a yield request is no entry of the queue")
	})
}

// The library does not send a request again after the session was lost; the program does.
func TestAYieldRequestIsSentAgainAfterALoss(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "x")
		p, cut := through(t, url)
		r := begin(t, cut+"?ttl=2s", "ask", "x")
		_, err := yield.Next(hang.Context(t), h)
		require.NoError(t, err)

		p.Refuse(true)
		p.Reset()
		r.err.WaitFor(t, "warning: the session is lost, and the yield request with it")
		p.Refuse(false)

		_, err = yield.Next(hang.Context(t), h)
		require.NoError(t, err)
		r.err.WaitFor(t, "fairlock: asked again\n")
		recipetest.Unlock(t, h)
	})
}

func TestEvictAsksForConfirmationOnATerminal(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "nightly")
		h := holdOf(t, s, "x")
		for typed, want := range map[string]int{"n\n": 1, "\n": 1, "\x03": 130, "\x04": 1} {
			x := atTerminal(t, url, "evict", "--holder", "x")
			x.screen.WaitFor(t, `(?s)fairlock: warning: this breaks the lock: .*Evict \S+ pid \d+ \(nightly\), which (has held "x" with token \d+ for \S+|holds "x" with token \d+ and asked for it \S+ ago)\? \[y/N\] $`)
			x.types(t, typed)
			assert.Equal(t, want, x.code(t), "%q", typed)
		}
		require.NoError(t, h.Context().Err())

		x := atTerminal(t, url, "evict", "--holder", "x")
		x.screen.WaitFor(t, `\[y/N\] $`)
		x.types(t, "y\n")

		assert.Equal(t, 0, x.code(t))
		x.screen.WaitFor(t, `evicted {3}(\x1b\[[0-9;]*m)*x  \S+ pid \d+ \(nightly\), token \d+\r\n$`)
		<-h.Context().Done()
		hasEntries(t, s, "x", 0)
	})
}

// The confirmation comes after the holder has released. The next holder is not the one that
// was shown.
func TestAnEntryThatEndsBeforeTheConfirmationIsNotEvicted(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "nightly")
		h := holdOf(t, s, "x")
		x := atTerminal(t, url, "evict", "--holder", "x")
		x.screen.WaitFor(t, `\[y/N\] $`)
		recipetest.Unlock(t, h)
		next := holdOf(t, s, "x")

		x.types(t, "y\n")

		assert.Equal(t, 1, x.code(t))
		x.screen.WaitFor(t, `fairlock: \S+ pid \d+ \(nightly\) has gone from "x" by itself: no entry was evicted\r\n$`)
		hasEntries(t, s, "x", 1)
		require.NoError(t, next.Context().Err())
	})
}

func TestEvictWithoutATerminal(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "x")
		waits := begin(t, url, "run", "x", "--", "echo", "mine")
		hasEntries(t, s, "x", 2)

		got := execute(t, url, "evict", "--holder", "x")
		assert.Equal(t, 64, got.code)
		assert.Equal(t, "fairlock: stdin is no terminal, where evict could ask for confirmation: want --yes\nRun 'fairlock evict --help' for usage.\n", got.stderr)
		assert.Equal(t, 64, execute(t, url, "evict", "--waiter", "1", "--yes", "x").code, "a holder's")
		assert.Equal(t, 1, execute(t, url, "evict", "--waiter", "3", "--yes", "x").code)
		assert.Equal(t, result{code: 1, stderr: "fairlock: lock \"y\" has no holder and no waiter\n"}, execute(t, url, "evict", "--holder", "--yes", "y"))

		got = execute(t, url, "evict", "--waiter", "2", "--yes", "x")
		require.Equal(t, 0, got.code, got.stderr)
		assert.Empty(t, got.stderr)
		waits.err.WaitFor(t, "x: lost the place in the queue, joining again at its end")
		hasEntries(t, s, "x", 2)

		token := fmt.Sprint(int64(h.Token()))
		got = execute(t, url, "evict", "--token", token, "--yes", "-o", "jsonl", "x")
		require.Equal(t, 0, got.code, got.stderr)
		assert.Contains(t, got.stderr, "warning: this breaks the lock")
		var e schema.Event
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &e))
		assert.Equal(t, []string{"evicted", "x", token}, []string{e.Event, e.Name, fmt.Sprint(e.Entry.Token)})
		assert.Equal(t, 0, waits.code(t))
		assert.Equal(t, "mine\n", waits.out.String())

		holdOf(t, s, "x")
		got = execute(t, url, "evict", "--token", token, "--yes", "x")
		assert.Equal(t, result{code: 1, stderr: "fairlock: no entry of \"x\" has token " + token + ": it has gone, or never existed\n"}, got)
	})
}

func TestEvictWithoutPermissionEvictsNothing(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	holder := openSession(t, url, "")
	h := holdOf(t, holder, "x")
	ctx := hang.Context(t)
	for _, do := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", goodPassword); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "looks"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "looks", "fairlock/", "fairlock0", clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "eve", goodPassword); return err },
		func() error { _, err := client.UserGrantRole(ctx, "eve", "looks"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		require.NoError(t, do())
	}
	as := func(args ...string) result {
		return execute(t, url, append(args, "--user", "eve", "--password-file", password(t, goodPassword))...)
	}
	got := as("who", "x")
	require.Equal(t, 0, got.code, got.stderr)

	got = as("evict", "--holder", "--yes", "x")

	assert.Equal(t, 77, got.code)
	assert.Regexp(t, `(?m)^fairlock: no entry was evicted: .*permission`, got.stderr)
	assert.NoError(t, h.Context().Err())
	got = as("ask", "x")
	assert.Equal(t, 77, got.code)
	assert.Regexp(t, `^fairlock: .*permission`, got.stderr)
}

func TestEvictNamesTheHoldersIfSeveralHold(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		a, b := openSession(t, url, ""), openSession(t, url, "")
		var tokens []session.Token
		for _, s := range []*session.Session{a, b} {
			h, err := semaphore.New(s, "gpu", 2).Acquire(hang.Context(t), 1)
			require.NoError(t, err)
			tokens = append(tokens, h.Token())
		}

		got := execute(t, url, "evict", "--holder", "--yes", "gpu")

		assert.Equal(t, 64, got.code)
		assert.Contains(t, got.stderr, fmt.Sprintf("fairlock: 2 holders of \"gpu\": select one with --token %d or %d\n", tokens[0], tokens[1]))
	})
}
