package schema

import (
	"strconv"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// Describe returns the Queue of the entries that a session has read.
func Describe(name string, limit int64, entries []session.Entry, now time.Time) Queue {
	q := NewQueue(name)
	q.Limit = limit
	for _, e := range entries {
		out := describe(e, now)
		if out.State == Holder {
			q.Holders++
			out.held(e, now)
		} else {
			q.Waiters++
			q.OldestWait = max(q.OldestWait, out.Queued)
		}
		if q.Kind == "" {
			q.Kind = out.Kind
		}
		q.Entries = append(q.Entries, out)
	}
	return q
}

func describe(e session.Entry, now time.Time) Entry {
	detail := session.Engine(door.Key{}).Detail(e)
	meta := owner.MetaOf(&detail)
	out := Entry{
		State: string(e.State), Place: e.Place, Token: int64(e.Token), Mode: string(e.Mode), Weight: e.Weight, Kind: e.Kind,
		Host: e.Host, PID: e.PID, Label: e.Label, Since: At(e.Asked), Holds: meta.Holds, Value: e.Value, TTL: Seconds(meta.TTL), Trace: e.Trace, Generation: e.Generation,
		Session: e.Session, Key: e.Key, Foreign: e.Foreign, Unleased: detail.Unleased,
	}
	if !e.Asked.IsZero() {
		out.Queued = ago(now, e.Asked)
	}
	return out
}

// held sets when the hold began, if the entry records it.
func (e *Entry) held(from session.Entry, now time.Time) {
	if !from.Granted.IsZero() {
		e.Granted, e.Held = At(from.Granted), ago(now, from.Granted)
	}
}

// ago returns how long ago t is. It is at least 0, because clocks of different machines
// may disagree.
func ago(now, t time.Time) Seconds {
	return Seconds(max(now.Sub(t), 0).Truncate(time.Millisecond))
}

// Who returns the owner of an entry as people read it: "web-2 pid 4121 (nightly)".
func (e Entry) Who() string {
	switch {
	case e.Host == "" && e.Foreign:
		return "another program's " + e.Key
	case e.Host == "":
		return e.Key
	}
	return who(e.Host, e.PID, e.Label)
}

// NewAsk returns the Ask of a yield request.
func NewAsk(a yield.Request) Ask {
	return Ask{Reason: a.Reason, Host: a.Host, PID: a.PID, Label: a.Label, Since: At(a.Since), Session: a.Session}
}

// Who returns the sender of a yield request as people read it.
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
