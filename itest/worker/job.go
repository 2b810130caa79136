// Package worker runs clients as processes of their own, which can be stopped and
// killed: the test binary starts itself again with a job to do.
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// env makes a test binary a client process; its value is a job.
const env = "FAIRLOCK_ITEST_WORKER"

// The kinds of jobs.
const (
	Turns = "turns" // lock and unlock so many times, and report every Turn
	Hold  = "hold"  // lock, report Held; after a line on standard input write, and report Written
	Work  = "work"  // acquire locks by a Recipe and report each Spell, until standard input has "stop"
)

// Job describes what a client process does.
type Job struct {
	Do       string
	Servers  []string
	Root     string
	Name     string // of the lock
	TTL      time.Duration
	Turns    int
	Recipe   string // of Recipes
	Key      string // that the holder is to write, in the store that has the lock
	Resource string // URL of a Resource that the holder is to write to; "" for none
}

// Client is what a job works with.
type Client struct {
	Session *session.Session

	// Guard takes the guard of a hold.
	Guard func(h *session.Hold) Write

	// Close closes what is below the Session.
	Close func() error
}

// Write writes a key if the guard holds, and reports whether it did.
type Write func(ctx context.Context, key, value string) (bool, error)

// Held is the report of a holder when it holds.
type Held struct {
	Token int64
	Key   string // of its entry
}

// Written is the report of a holder after its writes.
type Written struct {
	Before    bool // the write went through with a guard made right after Lock
	After     bool // the same with a guard made now
	Resource  bool // the resource took the token
	Valid     time.Duration
	Cause     string        // of the end of the hold's context
	IsLost    bool          // the cause is session.ErrLost
	Unlock    bool          // Unlock returned session.ErrLost
	LostAfter time.Duration // from when the process went on until the context of the hold ended
}

// Refused checks that all writes were refused of a holder with token old that was stopped
// while it held, and that wrote when next held.
func (w Written) Refused(t testing.TB, old int64, next *session.Hold) {
	t.Helper()
	assert.False(t, w.Before, "write under a guard from before the loss")
	assert.False(t, w.After, "write under the guard of a lost hold")
	assert.False(t, w.Resource, "write with an old token")
	assert.Zero(t, w.Valid)
	assert.True(t, w.IsLost)
	assert.True(t, w.Unlock, "Unlock returned ErrLost")
	assert.Greater(t, int64(next.Token()), old)
}

func (j Job) run(open func(context.Context, Job) (*Client, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*recipetest.Patience)
	defer cancel()
	c, err := open(ctx, j)
	if err != nil {
		return err
	}
	switch j.Do {
	case Hold:
		err = j.hold(ctx, c)
	case Work:
		err = j.work(ctx, c.Session)
	default:
		err = j.takeTurns(ctx, c.Session)
	}
	closed := c.Session.Close()
	if j.Do == Work { // its TTL is short, and the service may be as slow: then the entries expire
		closed = ignore(closed, session.ErrUnavailable)
	}
	return errors.Join(err, closed, c.Close())
}

// takeTurns locks and unlocks, and reports every turn.
func (j Job) takeTurns(ctx context.Context, s *session.Session) error {
	m := mutex.New(s, j.Name)
	out := json.NewEncoder(os.Stdout)
	for range j.Turns {
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		u := TurnOf(h)
		u.End = recipetest.Now()
		// The monitor shows whether the entry was deleted, however late the answer came.
		if err := h.Unlock(); err != nil && !errors.Is(err, session.ErrReleasePending) {
			return err
		}
		if err := out.Encode(u); err != nil {
			return err
		}
	}
	return nil
}

// hold locks, reports that, waits for a line on standard input, writes under the lock, and
// reports the results.
//
//nolint:contextcheck // a hold has a context of its own
func (j Job) hold(ctx context.Context, c *Client) error {
	h, err := mutex.New(c.Session, j.Name).Lock(ctx)
	if err != nil {
		return err
	}
	early := c.Guard(h)
	out, in := json.NewEncoder(os.Stdout), bufio.NewReader(os.Stdin)
	if err := out.Encode(Held{int64(h.Token()), recipetest.Refs(h)[0].Key}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err // the parent is gone
	}
	woke := recipetest.Now()
	r := Written{}
	if r.Before, err = early(ctx, j.Key, "late"); err != nil {
		return err
	}
	if r.After, err = c.Guard(h)(ctx, j.Key, "later"); err != nil {
		return err
	}
	if r.Resource, err = j.put(ctx, h.Token()); err != nil {
		return err
	}
	r.Valid = h.Remaining()
	select {
	case <-h.Context().Done():
		r.Cause = context.Cause(h.Context()).Error()
		r.IsLost = errors.Is(context.Cause(h.Context()), session.ErrLost)
		r.LostAfter = recipetest.Now().Sub(woke)
	case <-time.After(recipetest.Patience):
	}
	r.Unlock = errors.Is(h.Unlock(), session.ErrLost)
	return out.Encode(r)
}

// put writes to the job's Resource, and reports whether that accepted the token.
func (j Job) put(ctx context.Context, token session.Token) (bool, error) {
	if j.Resource == "" {
		return false, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("%s?token=%d", j.Resource, token), strings.NewReader("late"))
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK, errors.Join(err, resp.Body.Close())
}
