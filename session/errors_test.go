package session

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/session/driver"
)

func TestErrorsReadWell(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	meta := owner.Meta{Host: "web-2", PID: 4121, Since: now.Add(-133*time.Second - 400*time.Millisecond)}
	claiming := func(m owner.Meta) driver.Entry {
		return driver.Entry{Ref: driver.Ref{Queue: "n", Key: "fairlock/n/1.0", Place: 7}, Data: m.Encode(), Detail: m.Encode()}
	}
	unknown := claiming(meta)
	meta.Label = "nightly"
	labelled := claiming(meta)
	meta.Label, meta.Granted = "", now.Add(-12*time.Second-400*time.Millisecond)
	web2 := claiming(meta)
	meta.Granted, meta.Since = now.Add(time.Hour), now.Add(time.Hour)
	ahead := claiming(meta) // its clock is
	foreign := driver.Entry{Ref: driver.Ref{Queue: "n", Key: "n/32694", Place: 7}, Foreign: true}
	for want, err := range map[string]error{
		"not acquired: held by web-2 pid 4121 for 12s, 3 ahead: context deadline exceeded": &NotAcquiredError{
			Holder: entryOf(1, true, web2), Ahead: 3, Now: now, Err: context.DeadlineExceeded,
		},
		"not acquired: held by web-2 pid 4121, which asked 2m13s ago, 3 ahead":           &NotAcquiredError{Holder: entryOf(1, true, unknown), Ahead: 3, Now: now},
		"not acquired: held by web-2 pid 4121 (nightly), which asked 2m13s ago, 1 ahead": &NotAcquiredError{Holder: entryOf(1, true, labelled), Ahead: 1, Now: now},
		"not acquired: held by web-2 pid 4121, 1 ahead":                                  &NotAcquiredError{Holder: entryOf(1, true, ahead), Ahead: 1, Now: now},
		`not acquired: held by "n/32694", 1 ahead`:                                       &NotAcquiredError{Holder: entryOf(1, true, foreign), Ahead: 1, Now: now},
		"not acquired: context canceled":                                                 &NotAcquiredError{Ahead: -1, Err: context.Canceled},
		`lock "n" (token 9) lost: the deadline passed without contact with the service`: &LostError{
			Name: "n", Token: 9, Session: "1a", Reason: ReasonDeadline,
		},
		"session 1a: the session expired or was revoked at the service (lease not found)": &LostError{
			Session: "1a", Reason: ReasonExpired, Err: errors.New("lease not found"),
		},
	} {
		assert.EqualError(t, err, want)
	}
}

// TestErrorsCannotBeForgedByEntries has entries whose owners claim texts that a
// terminal or a log would interpret.
func TestErrorsCannotBeForgedByEntries(t *testing.T) {
	long := strings.Repeat("k", 7000)
	claiming := func(host, label string, pid int, since int64) driver.Entry {
		text, err := json.Marshal(map[string]any{"v": 1, "host": host, "label": label, "pid": pid, "since": since})
		require.NoError(t, err)
		return driver.Entry{Data: text}
	}
	for name, holder := range map[string]driver.Entry{
		"a line break":    claiming("web-1\nlevel=ERROR msg=forged", "", 1, 0),
		"an escape":       claiming("web-1", "\x1b[2J\u009b31m\u202e", 0, 0),
		"a long host":     claiming(long, long, 0, 0),
		"a long key":      {Ref: driver.Ref{Key: strings.Repeat("k", 1<<20)}, Foreign: true},
		"the end of time": claiming("web-1", "", math.MinInt, math.MaxInt64),
	} {
		if holder.Key == "" {
			holder.Key = "k"
		}
		text := (&NotAcquiredError{Holder: entryOf(1, true, holder), Ahead: 1, Now: time.Unix(1_800_000_000, 0)}).Error()
		assert.Less(t, len(text), 500, name)
		assert.True(t, utf8.ValidString(text), name)
		assert.NotContains(t, text, "\ufffd", name)
		for _, r := range text {
			assert.True(t, unicode.IsPrint(r), "%s: %q", name, text)
		}
	}
}

func TestErrorsKeepTheirChains(t *testing.T) {
	err := error(&NotAcquiredError{Err: context.DeadlineExceeded})
	require.ErrorIs(t, err, ErrNotAcquired)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrLost)

	cause := errors.New("lease not found")
	err = &LostError{Reason: ReasonExpired, Err: cause}
	require.ErrorIs(t, err, ErrLost)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, ErrNotAcquired)
}
