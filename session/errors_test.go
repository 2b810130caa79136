package session

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func TestErrorsReadWell(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	web2 := driver.Entry{
		Ref:  driver.Ref{Line: "n", Key: "fairlock/n/1.0", Place: 7},
		Meta: driver.Meta{Host: "web-2", PID: 4121, Since: now.Add(-133*time.Second - 400*time.Millisecond)},
	}
	labelled, unknown := web2, web2
	labelled.Meta.Label = "nightly"
	web2.Granted = now.Add(-12*time.Second - 400*time.Millisecond)
	ahead := web2 // its clock is
	ahead.Granted, ahead.Meta.Since = now.Add(time.Hour), now.Add(time.Hour)
	foreign := driver.Entry{Ref: driver.Ref{Line: "n", Key: "n/32694", Place: 7}, Foreign: true}
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

// TestErrorsCannotBeForgedByEntries has entries whose owners say of themselves
// what a terminal or a log would take for more.
func TestErrorsCannotBeForgedByEntries(t *testing.T) {
	long := strings.Repeat("k", 1<<20)
	for name, holder := range map[string]driver.Entry{
		"a line break": {Meta: driver.Meta{Host: "web-1\nlevel=ERROR msg=forged", PID: 1}},
		"an escape":    {Meta: driver.Meta{Host: "web-1", Label: "\x1b[2J\u009b31m\u202e"}},
		"a long host":  {Meta: driver.Meta{Host: long, Label: long}},
		"a long key":   {Ref: driver.Ref{Key: long}, Foreign: true},
		"no UTF-8":     {Meta: driver.Meta{Host: "\xff\xfe"}},
		"the end of time": {Meta: driver.Meta{
			Host: "web-1", PID: math.MinInt, Since: time.UnixMilli(math.MaxInt64),
		}},
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
