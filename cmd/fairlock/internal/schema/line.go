package schema

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Describe makes a Line of what the service has. Who holds is what the recipes'
// own rules say of it: an entry does not say so itself.
func Describe(name string, limit int64, entries []driver.Entry, now time.Time) Line {
	l := NewLine(name)
	l.Limit = limit
	ahead := queue.Ahead{Complete: true, Limit: limit}
	for i, e := range entries {
		out := describe(e, now)
		out.Place, out.State = i+1, Waiter
		if holds(ahead, e) {
			out.State = Holder
			l.Holders++
			out.held(e, now)
		} else {
			l.Waiters++
			l.OldestWait = max(l.OldestWait, out.Queued)
		}
		if l.Kind == "" {
			l.Kind = out.Kind
		}
		l.Entries = append(l.Entries, out)
		ahead.Entries, ahead.Count = entries[:i+1], i+1
	}
	return l
}

// holds says whether an entry holds, given those ahead of it. One that was
// admitted holds although the limit has been lowered since.
func holds(ahead queue.Ahead, e driver.Entry) bool {
	rule := queue.ReadWrite() // which is Mutex for whoever does not share
	if e.Mode == driver.Weighted && !e.Foreign {
		rule = queue.Semaphore()
	}
	return e.Admitted || rule.Decide(ahead, e).Hold
}

func describe(e driver.Entry, now time.Time) Entry {
	out := Entry{
		Token: e.Token, Mode: e.Mode.String(), Weight: e.Weight, Kind: e.Meta.Kind,
		Host: e.Meta.Host, PID: e.Meta.PID, Label: e.Meta.Label, Since: At(e.Meta.Since), Holds: e.Meta.Holds,
		Session: e.Session, Key: e.Key, Foreign: e.Foreign, Unleased: e.Unleased,
	}
	if !e.Foreign && utf8.Valid(e.Value) {
		out.Value = string(e.Value)
	}
	if !e.Meta.Since.IsZero() {
		out.Queued = ago(now, e.Meta.Since)
	}
	return out
}

// held adds since when a holder holds, if that is known.
func (e *Entry) held(from driver.Entry, now time.Time) {
	if !from.Granted.IsZero() {
		e.Granted, e.Held = At(from.Granted), ago(now, from.Granted)
	}
}

// ago is how long ago a time is. Clocks of different machines may disagree.
func ago(now, t time.Time) Seconds {
	return Seconds(max(now.Sub(t), 0).Truncate(time.Millisecond))
}

// Who names the owner of an entry for people: "web-2 pid 4121 (nightly)".
func (e Entry) Who() string {
	switch {
	case e.Host == "" && e.Foreign:
		return "another program's " + e.Key
	case e.Host == "":
		return e.Key
	}
	return who(e.Host, e.PID, e.Label)
}

// NewAsk describes an ask.
func NewAsk(a session.Ask) Ask {
	return Ask{Reason: a.Reason, Host: a.Host, PID: a.PID, Label: a.Label, Since: At(a.Since), Session: a.Session}
}

// Who names the one who asks for people.
func (a Ask) Who() string {
	if a.Host == "" {
		return "session " + a.Session
	}
	return who(a.Host, a.PID, a.Label)
}

func who(host string, pid int, label string) string {
	if pid != 0 {
		host += " pid " + strconv.Itoa(pid)
	}
	if label != "" {
		host += " (" + label + ")"
	}
	return host
}
