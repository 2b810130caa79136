package command

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

func TestHeldCountsFromTheGrant(t *testing.T) {
	withServices(t, heldSinceGrant)
}

// heldSinceGrant lets "late" wait while "early" holds. What the commands show of "late"
// counts from the release, not from when "late" asked.
func heldSinceGrant(t *testing.T, url string) {
	ctx := hang.Context(t)
	early, late := openSession(t, url, "early"), openSession(t, url, "late")
	h, err := mutex.New(early, "x").Lock(ctx)
	require.NoError(t, err)
	granted := make(chan *session.Hold, 1)
	waiting(t, early, "x", 2, func(context.Context) {
		if h, err := mutex.New(late, "x").Lock(ctx); err == nil {
			granted <- h
		}
	})
	isRecorded(t, early, "x")
	got := execute(t, url, "run", "-n", "x", "--", "true")
	assert.Regexp(t, `^fairlock: x: not acquired: held by \S+ pid \d+ \(early\)(, which asked \S+ ago| for \S+), 2 ahead\n`, got.stderr)

	released := time.Now().Truncate(time.Millisecond)
	recipetest.Unlock(t, h)
	held := <-granted
	isRecorded(t, early, "x")
	got = execute(t, url, "who", "-o", "json", "x")
	require.Equal(t, 0, got.code, got.stderr)
	var l schema.Queue
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &l))
	require.Len(t, l.Entries, 1)
	e := l.Entries[0]
	assert.False(t, e.Granted.Before(released), "granted %s, released by the one before %s", e.Granted, released)
	assert.True(t, e.Since.Before(released), "it asked before that")
	assert.Equal(t, e.Granted.Sub(e.Since.Time), time.Duration(e.Queued-e.Held), "it waited for the rest")

	r := rows(execute(t, url, "ls").stdout)
	assert.Regexp(t, `^\d[\d.hm]*s$`, columns(r[1])[3], "HELD: %s", r[1])
	r = rows(execute(t, url, "who", "x").stdout)
	assert.Regexp(t, `^\d`, columns(r[2])[9], "HELD: %s", r[2])
	waiter := begin(t, url, "run", "x", "--", "true")
	waiter.err.WaitFor(t, `x: waiting, 2nd of 2, held by \S+ pid \d+ \(late\) for \S+, token \d+\n`)
	require.NoError(t, waiter.Process.Signal(syscall.SIGTERM))
	waiter.code(t)
	x := atTerminal(t, url, "evict", "--holder", "x")
	x.screen.WaitFor(t, `Evict \S+ pid \d+ \(late\), which has held "x" with token \d+ for \S+\? \[y/N\] $`)
	x.types(t, "n\n")
	assert.Equal(t, 1, x.code(t))
	recipetest.Unlock(t, held)
}

// isRecorded waits until the first entry of a queue has recorded when it was granted.
func isRecorded(t *testing.T, s *session.Session, name string) {
	t.Helper()
	hang.Until(t, func() bool {
		queue, err := s.Queue(t.Context(), name)
		return err == nil && len(queue) > 0 && !queue[0].Granted.IsZero()
	}, "the grant is not recorded")
}
