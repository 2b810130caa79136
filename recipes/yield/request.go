package yield

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// A yield request is an entry in a queue of its own, next to that of the lock, on the session of
// its sender. So its end, a lost answer and a watch are those of any entry.

// kind is the recipe of a yield request, as its entry names it.
const kind = "ask"

// stored is a yield request that was read.
type stored struct {
	Request
	token int64 // above that of every older request for the same lock
}

// sent is a yield request that was sent.
type sent struct {
	t   *term.Term
	ref driver.Ref
}

// join makes an entry for a yield request, in one term after another until the service has
// acknowledged it. If that fails, nothing of the request stays: if its outcome is unknown,
// the term removes what there may be.
func join(ctx context.Context, e *engine.Engine, name, reason string) (sent, error) {
	sender := e.Meta()
	sender.Kind, sender.Since, sender.Holds = kind, e.Clock().Wall(), nil
	req := driver.JoinRequest{
		Queue: driver.AskQueue(name), Data: []byte(reason), Valued: true, Detail: sender.Encode(), Nearest: 1,
	}
	for {
		t, err := e.Live(ctx)
		if err != nil {
			return sent{}, err //nolint:wrapcheck // it names what it does
		}
		within, cancel := t.Within(ctx)
		joined, err := t.Driver().Join(within, req)
		cancel()
		if err == nil {
			return sent{t, joined[0].Entry.Ref}, nil
		}
		if pending, ok := errors.AsType[*driver.PendingError](err); ok {
			t.Clean(pending.Settle)
		}
		if ctx.Err() != nil || t.Context().Err() == nil && !errors.Is(err, driver.ErrSessionOver) {
			return sent{}, err //nolint:wrapcheck // the backend's own error
		}
		t.Driver().Renew() // so that the term soon learns that it is over
		driver.Sleep(ctx, e.Clock(), minBackoff)
	}
}

// withdraw deletes a yield request, and returns nil when the service has acknowledged that,
// or has no longer had the request. After an error, at the latest after the timeout, the
// request goes in the background, or with the service session.
func (s sent) withdraw(clock driver.Clock, timeout time.Duration) error {
	leave := func(ctx context.Context) error {
		_, err := s.t.Driver().Leave(ctx, driver.LeaveRequest{Ref: s.ref})
		return err //nolint:wrapcheck // the backend's own error
	}
	ctx, cancel := driver.WithTimeout(s.t.Context(), clock, timeout)
	defer cancel()
	err := leave(ctx)
	switch {
	case err == nil:
		return nil
	case s.t.Context().Err() != nil:
		return errors.New(context.Cause(s.t.Context()).Error()) // its text: no hold was lost
	}
	s.t.Clean(leave)
	return err
}

// all asks for the yield requests for a lock.
func all(name string) driver.ReadRequest {
	return driver.ReadRequest{Queue: driver.AskQueue(name), Detail: true}
}

// in returns the yield requests for a lock that the answer to all contains, the oldest first.
func in(name string, v driver.View) []stored {
	var requests []stored
	for i := range v.Entries {
		e := &v.Entries[i]
		// An entry without a token was deleted during the read. One of another program is
		// no request, and one without a session would never end.
		if e.Token == 0 || e.Foreign || e.Unleased || !e.Valued {
			continue
		}
		meta := owner.MetaOf(e)
		requests = append(requests, stored{Request{
			Name: name, Reason: strings.ToValidUTF8(string(e.Data[:min(len(e.Data), MaxReason)]), ""),
			Host: meta.Host, PID: meta.PID, Label: meta.Label, Since: meta.Since, Session: e.Session,
		}, e.Token})
	}
	return requests
}
