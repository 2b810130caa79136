package ui

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// The types of this file are the protocol of the page and its server. They may change in
// any version: both come from one binary, and a page that meets a new server loads itself
// again. Times are milliseconds since 1970 by the clock of this machine, 0 if not known.

// card is one entry of a queue. It is comparable, so that an entry that has not changed
// is not sent again. Texts are as plain returns them.
type card struct {
	ID      string `json:"id"` // a hash that identifies the entry for evict
	Holder  bool   `json:"holder,omitempty"`
	With    bool   `json:"with,omitempty"` // granted together with the entry before it
	Token   string `json:"token"`          // JavaScript's numbers have 53 bits
	Mode    string `json:"mode"`
	Weight  int64  `json:"weight,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Label   string `json:"label,omitempty"`
	Asked   int64  `json:"asked,omitempty"`
	Granted int64  `json:"granted,omitempty"`
	Seen    int64  `json:"seen,omitempty"` // see setSeen: since when reads have shown it hold, or wait
	Value   string `json:"value,omitempty"`
	Holds   texts  `json:"holds,omitempty"`
	Session string `json:"session,omitempty"`
	Key     string `json:"key"`
	TTL     int64  `json:"ttl,omitempty"` // milliseconds; how long it outlives its owner at most
	Trace   string `json:"trace,omitempty"`

	Generation int64 `json:"generation,omitempty"`
	Foreign    bool  `json:"foreign,omitempty"`
	Unleased   bool  `json:"unleased,omitempty"`
}

// texts is a list of texts as one comparable value: each ends with a NUL, which plain
// leaves in none.
type texts string

// MarshalJSON writes an array of strings.
func (t texts) MarshalJSON() ([]byte, error) {
	return json.Marshal(strings.Split(strings.TrimSuffix(string(t), "\x00"), "\x00")) //nolint:wrapcheck // strings cannot fail
}

// lockMsg is a lock as it is now, or what has changed in it.
type lockMsg struct {
	N     int    `json:"n"` // the lock's number, of this handler
	Name  string `json:"name,omitempty"`
	Show  string `json:"show,omitempty"` // the name as plain, if that differs
	At    int64  `json:"at"`             // when it was read
	Kind  string `json:"kind,omitempty"`
	Limit int64  `json:"limit,omitempty"`
	Asks  []ask  `json:"asks,omitempty"`

	// Hidden are the entries that are in none of the lists below.
	Hidden hidden `json:"hidden,omitzero"`

	// Entries are all of them, if Whole. Else the entries of Remove are gone, those of Set
	// have changed in their places, and those of Add are new at the end.
	Whole   bool     `json:"whole,omitempty"`
	Entries []card   `json:"entries,omitempty"`
	Remove  []string `json:"rm,omitempty"`
	Set     []card   `json:"set,omitempty"`
	Add     []card   `json:"add,omitempty"`
}

// hidden are the entries of a queue that the login of the Session may not read.
type hidden struct {
	N      int    `json:"n"`
	First  string `json:"first"`            // the key of the first one
	Holder bool   `json:"holder,omitempty"` // which holds
}

// ask is a yield request.
type ask struct {
	Reason string `json:"reason,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Label  string `json:"label,omitempty"`
	Since  int64  `json:"since,omitempty"`
}

// status is the state of the reading.
type status struct {
	Now    int64  `json:"now"`              // of the tick
	At     int64  `json:"at,omitempty"`     // of the last tick that was answered
	Since  int64  `json:"since,omitempty"`  // since when no tick is answered; 0 while they are
	Err    string `json:"err,omitempty"`    // why
	Unread int    `json:"unread,omitempty"` // of how many queues the last read was denied or refused
	Why    string `json:"why,omitempty"`    // for the first of these
	Health health `json:"health"`
}

// health is that of the handler's own Session.
type health struct {
	Ready bool   `json:"ready,omitempty"`
	Since int64  `json:"since,omitempty"`
	Left  int64  `json:"left,omitempty"` // milliseconds to the deadline
	TTL   int64  `json:"ttl,omitempty"`
	Err   string `json:"err,omitempty"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`
}

// wholeState is the first data that a page loads.
type wholeState struct {
	Seq      uint64    `json:"seq"`
	Interval int64     `json:"interval"`
	Service  string    `json:"service"`
	Command  string    `json:"command"` // what commands begin with
	Prefix   string    `json:"prefix,omitempty"`
	Evict    bool      `json:"evict,omitempty"`
	Token    string    `json:"token,omitempty"` // what actions must carry
	Status   status    `json:"status"`
	Locks    []lockMsg `json:"locks"`
	Waits    waits     `json:"waits"`
}

// tickMsg is what one tick of the reader has changed.
type tickMsg struct {
	Seq    uint64    `json:"seq"`
	Status status    `json:"status"`
	Locks  []lockMsg `json:"locks,omitempty"`
	Gone   []int     `json:"gone,omitempty"`
	All    bool      `json:"all,omitempty"`  // every lock was read
	Read   []int     `json:"read,omitempty"` // else: those that were read and have not changed
	Waits  *waits    `json:"waits,omitempty"`
}

// plain returns a text that an entry or another program claims as it can be shown: as it
// is if every character of it can be printed, and quoted as Go does otherwise. Quoting
// keeps control characters, bytes that are not UTF-8, and characters that turn the
// direction of writing from a page that shows it as text.
func plain(s string) string {
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// millis returns a time as the page uses it.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// identity names one entry of a lock and no other one: keys can be used again, tokens and
// sessions are not.
func identity(e session.Entry) string {
	sum := sha256.Sum256([]byte(e.Key + "\x00" + strconv.FormatInt(int64(e.Token), 10) + "\x00" + e.Session))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// cardsOf makes cards of a queue. Entries without a token are left out, because the page knows
// entries by their tokens: they were deleted during the read, or the login may not read them,
// and then they are counted. So are the names of other locks that do not begin with a prefix.
func cardsOf(queue schema.Queue, entries []session.Entry, prefix string) (all []card, unread hidden) {
	described, holds := make([]driver.Entry, len(entries)), make([]bool, len(entries))
	for i, e := range entries {
		described[i], holds[i] = session.Engine(door.Key{}).Detail(e), e.State == session.Holder
	}
	with := rule.Together(described, holds, queue.Limit)
	all = make([]card, 0, len(entries))
	for i, e := range entries {
		if described[i].Unreadable {
			unread.N++
			if unread.N == 1 {
				unread.First, unread.Holder = plain(e.Key), holds[i]
			}
		}
		if e.Token == 0 {
			continue
		}
		l := queue.Entries[i]
		c := card{
			ID: identity(e), Holder: holds[i], With: with[i], Token: strconv.FormatInt(int64(e.Token), 10), Mode: string(e.Mode), Weight: e.Weight,
			Kind: plain(e.Kind), Host: plain(e.Host), PID: e.PID, Label: plain(e.Label), Asked: millis(e.Asked), Granted: millis(e.Granted),
			Value: plain(e.Value), Generation: e.Generation, Session: plain(e.Session), Key: plain(e.Key), Foreign: e.Foreign, Unleased: l.Unleased,
			TTL: time.Duration(l.TTL).Milliseconds(), Trace: plain(e.Trace),
		}
		var names strings.Builder
		for _, n := range l.Holds {
			if strings.HasPrefix(n, prefix) {
				names.WriteString(plain(n) + "\x00")
			}
		}
		c.Holds = texts(names.String())
		all = append(all, c)
	}
	return all, unread
}

// asksOf makes yield requests fit to be shown.
func asksOf(from []schema.Ask) []ask {
	var all []ask
	for _, a := range from {
		all = append(all, ask{Reason: plain(a.Reason), Host: plain(a.Host), PID: a.PID, Label: plain(a.Label), Since: millis(a.Since.Time)})
	}
	return all
}
