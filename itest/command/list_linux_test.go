package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
)

func TestLsAndWhoShowTheQueues(t *testing.T) {
	withServices(t, lsAndWho)
}

func lsAndWho(t *testing.T, url string) {
	ctx := hang.Context(t)
	a, b := openSession(t, url, "nightly"), openSession(t, url, "")
	h, err := mutex.New(a, "orders/settle").Lock(ctx)
	require.NoError(t, err)
	waiting(t, a, "orders/settle", 2, func(ctx context.Context) { _, _ = mutex.New(b, "orders/settle").Lock(ctx) })
	_, err = semaphore.New(a, "gpu", 4).Acquire(ctx, 3)
	require.NoError(t, err)
	waiting(t, a, "gpu", 2, func(ctx context.Context) { _, _ = semaphore.New(b, "gpu", 4).Acquire(ctx, 2) })
	_, err = rwlock.New(a, "cfg").RLock(ctx)
	require.NoError(t, err)
	_, err = rwlock.New(b, "cfg").RLock(ctx)
	require.NoError(t, err)
	_, err = election.New(a, "orders/leader").Campaign(ctx, "10.0.0.7:80")
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	me := fmt.Sprintf("%s pid %d", host, os.Getpid())

	t.Run("ls", func(t *testing.T) {
		got := execute(t, url, "ls")
		require.Equal(t, 0, got.code, got.stderr)
		assert.Empty(t, got.stderr)
		r := rows(got.stdout)
		require.Len(t, r, 5)
		assert.Equal(t, []string{"NAME", "KIND", "HOLDER", "HELD", "WAITERS", "OLDEST"}, columns(r[0]))
		for i, want := range [][]string{
			{"cfg", "rwlock", me + " (nightly) +1", "0"},
			{"gpu", "semaphore", me + " (nightly)", "1"},
			{"orders/leader", "election", "10.0.0.7:80 (" + me + ")", "0"},
			{"orders/settle", "mutex", me + " (nightly)", "1"},
		} {
			c := columns(r[i+1])
			assert.Equal(t, want, append(c[:3:3], c[4]), r[i+1])
		}
	})
	t.Run("ls with a prefix", func(t *testing.T) {
		assert.Equal(t, "orders/leader\norders/settle\n", execute(t, url, "list", "orders/", "-o", "name").stdout)
		const none = "no lock whose name begins with \"none/\" has a holder or a waiter"
		assert.Equal(t, result{code: 1, stderr: "fairlock: " + none + "\n"}, execute(t, url, "ls", "none/"))
		assert.Equal(t, result{code: 1, stderr: "fairlock: " + none + "\n"}, execute(t, url, "ls", "-o", "name", "none/"))
		got := execute(t, url, "ls", "-o", "json", "none/")
		assert.Equal(t, 1, got.code)
		assert.Equal(t, "[]\n", got.stdout)
		assert.Contains(t, got.stderr, `"type":"error","code":1,`)
	})
	t.Run("ls -o jsonl", func(t *testing.T) {
		got := rows(execute(t, url, "ls", "-o", "jsonl").stdout)
		require.Len(t, got, 4)
		var l schema.Queue
		require.NoError(t, json.Unmarshal([]byte(got[1]), &l))
		assert.Equal(t, []any{"gpu", int64(4), 1, 1}, []any{l.Name, l.Limit, l.Holders, l.Waiters})
	})
	t.Run("who", func(t *testing.T) {
		got := execute(t, url, "who", "orders/settle")
		require.Equal(t, 0, got.code, got.stderr)
		r := rows(got.stdout)
		require.Len(t, r, 4)
		assert.Equal(t, "orders/settle  mutex, 1 holder, 1 waiting", r[0])
		r = r[1:]
		assert.Equal(t, []string{"PLACE", "STATE", "TOKEN", "MODE", "HOST", "PID", "LABEL", "ASKED", "QUEUED", "HELD"}, columns(r[0]))
		pid := strconv.Itoa(os.Getpid())
		assert.Equal(t, []string{"1", "holder", fmt.Sprint(int64(h.Token())), "exclusive", host, pid, "nightly"}, columns(r[1])[:7])
		second := columns(r[2])
		assert.Equal(t, []string{"2", "waiter", "exclusive", host, pid, "-"}, append(second[:2:2], second[3:7]...))
		assert.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000$`, second[7])
		assert.Equal(t, "orders/settle\n", execute(t, url, "who", "-o", "name", "orders/settle").stdout)
		assert.Equal(t, "gpu  semaphore, 3 of 4 permits, 1 waiting", rows(execute(t, url, "who", "gpu").stdout)[0])
		leader := rows(execute(t, url, "who", "orders/leader").stdout)
		assert.Equal(t, "orders/leader  election, leader 10.0.0.7:80, 0 waiting", leader[0])
		assert.Regexp(t, " VALUE$", leader[1])
		assert.Regexp(t, " 10.0.0.7:80$", leader[2])
	})
	t.Run("who -o json", func(t *testing.T) {
		got := execute(t, url, "queue", "orders/leader", "-o", "json")
		var l schema.Queue
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &l))
		require.Len(t, l.Entries, 1)
		entries, err := a.Queue(ctx, "orders/leader")
		require.NoError(t, err)
		assert.Equal(t, "10.0.0.7:80", l.Entries[0].Value)
		assert.Equal(t, entries[0].Key, l.Entries[0].Key)
		assert.Equal(t, entries[0].Session, l.Entries[0].Session)
		assert.EqualValues(t, entries[0].Token, l.Entries[0].Token)
	})
	t.Run("who of an unknown name", func(t *testing.T) {
		assert.Equal(t, result{code: 1, stderr: "fairlock: lock \"order/settle\" has no holder and no waiter: did you mean \"orders/settle\"?\n"},
			execute(t, url, "who", "order/settle"))
	})
	t.Run("completion", func(t *testing.T) {
		completes := func(command string) {
			const want, none = "orders/leader\norders/settle\n:4\n", ":4\n"
			got := none
			for range 10 { // the service has one second to answer, or nothing is completed
				if got = execute(t, url, "__complete", command, "or").stdout; got != none {
					break
				}
			}
			assert.Equal(t, want, got)
		}
		completes("who")
		assert.Equal(t, ":4\n", execute(t, url, "__complete", "who", "orders/leader", "or").stdout)
		for _, command := range []string{"run", "elect", "hold"} {
			completes(command)
		}
		assert.Equal(t, ":0\n", execute(t, url, "__complete", "run", "orders/leader", "--", "./b").stdout, "files, by the shell")
		assert.Equal(t, "kill\nwarn\n:4\n", execute(t, url, "__complete", "run", "--on-lost", "").stdout)
		assert.Equal(t, "etcd://\netcds://\nzk://\nzks://\npostgres://\npostgresql://\nredis://\nrediss://\nvalkey://\nvalkeys://\nmem://\n:6\n", execute(t, url, "__complete", "ls", "--on", "").stdout)
		assert.Equal(t, ":4\n", execute(t, strings.Replace(url, ":", "s:", 1), "__complete", "who", "or").stdout, "no answer, no error")
	})
	t.Run("on a terminal", func(t *testing.T) {
		text := seen(t, url, 40, 24, "who", "-o", "wide", "orders/settle")
		colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
		assert.Regexp(t, colours, text)
		r := rows(strings.ReplaceAll(colours.ReplaceAllString(text, ""), "\r\n", "\n"))
		entries, err := a.Queue(ctx, "orders/settle")
		require.NoError(t, err)
		for i, e := range entries {
			assert.Contains(t, r[i+2], "  "+e.Session+"  ", "a row is complete even on a narrow terminal")
			assert.True(t, strings.HasSuffix(r[i+2], "  "+e.Key), r[i+2])
		}
		assert.NotRegexp(t, colours, seen(t, url, 60, 24, "who", "orders/settle", "--no-color"))
	})
}

// seen runs the program on a terminal and returns all that it wrote there.
func seen(t *testing.T, url string, columns, height uint16, args ...string) string {
	t.Helper()
	ours, theirs := terminal(t, columns, height)
	cmd := program(t, args...)
	cmd.Env = append(cmd.Env, "FAIRLOCK_ON="+url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	var text strings.Builder
	_, _ = io.Copy(&text, ours) // the copy ends with an error when the other side is closed
	require.Equal(t, 0, code(t, cmd.Wait()), text.String())
	return text.String()
}
