package queue

import (
	"cmp"
	"slices"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// Queue is what this process knows of one queue, has in it, and waits for in it. Facts go in by
// Group.Joined, Learned, Left, Marked and the events of watches (facts.go). Each changes the
// picture, and has those own entries decided that the fact can concern (decide.go). This file has
// what the engine asks a queue to do, and the reads that it needs.
//
// Nothing here sends, blocks or locks: that is asked of Outside. One mutex of the caller's guards
// all queues of a term, with their entries, groups and Term.
type Queue struct {
	// Name is the name of the queue.
	Name string

	out  Outside
	term *Term
	pic  picture

	// own are our entries that are not known to be gone: those with a state below over.
	own map[driver.Ref]*Entry

	// watches are those that an entry waits for, and those on own entries that are watched. One
	// is taken out when no entry needs it any more, or when its target is gone.
	watches map[driver.Target]*watch

	// limit is the newest record of the limit that is known, by its token: of a semaphore only.
	limit driver.Record

	// joins is how many joins of this term in the queue were sent and are not answered. Each may
	// have made an entry that a watch of ours reports before the answer has come.
	joins int

	wanted  []*Entry // want a read; each once
	check   *Entry   // the waiter that reads without an event, see Recheck; nil: none
	reading bool     // Outside.Read was called, and Next has not returned nil since

	// news are the newest changes of entries since the read under way was sent; nil or empty while
	// none is under way.
	news map[driver.Ref]change

	// eventCount is how many changes events have shown, ever. It shows whether anything has come
	// since a request was sent.
	eventCount uint64

	// writers are where writers of other programs were seen.
	writers foreignWriters
}

// Outside is what a queue asks for. Nothing of it calls the queue before it returns.
type Outside interface {
	// Watch has the service report what happens to a target, as driver.Session.Watch does.
	Watch(t driver.Target, f func(driver.Event)) (cancel func())

	// Read is called when entries want a read and none is under way. The engine then calls Next,
	// sends what that returns, passes on the answer, and so on until Next returns nil.
	Read()

	// Renew is called when the session is in doubt: a renewal shows whether it lives.
	Renew()
}

// Term is what the queues of one term have in common.
type Term struct {
	doubts doubts

	// firsts: the service has reported Event.First at some time. Never reset.
	firsts bool
}

// Doubts returns how many doubts were raised so far. The caller remembers it before it sends a
// join.
func (t *Term) Doubts() uint64 { return t.doubts.n }

// New returns a queue of which nothing is known.
func New(name string, t *Term, out Outside) *Queue {
	return &Queue{Name: name, term: t, out: out, own: map[driver.Ref]*Entry{}, watches: map[driver.Target]*watch{}}
}

// Joins takes in that a join is about to be sent. Its answer is Group.Joined or NotJoined.
func (q *Queue) Joins() { q.joins++ }

// NotJoined takes in that a join has made no entry, or that its outcome will never be known here.
func (q *Queue) NotJoined() { q.joins-- }

// Entry returns our entry of that name, or nil if there is none.
func (q *Queue) Entry(ref driver.Ref) *Entry { return q.own[ref] }

// Empty reports whether we have no entry in the queue.
func (q *Queue) Empty() bool { return len(q.own) == 0 }

// Forget empties the picture of a queue without own entries, because no watch reports the ends of
// its entries any more. The answer to a read under way may still come.
func (q *Queue) Forget() { q.pic, q.writers = picture{}, foreignWriters{} }

// EventCount returns how many changes events have shown so far, see Left.
func (q *Queue) EventCount() uint64 { return q.eventCount }

// Read is a read that is to be sent, or was.
type Read struct {
	driver.ReadRequest

	batch  []*Entry // those that want it
	check  *Entry   // see Recheck; may be nil
	doubts uint64   // Term.Doubts before it was sent
}

// Next returns the read that serves all entries that want one, nil if none does. It is called
// right before the read is sent.
func (q *Queue) Next() *Read {
	r := &Read{doubts: q.term.doubts.n, check: q.check}
	for _, en := range q.wanted {
		en.wants = false
		if en.state == waiting && !en.leaving {
			r.batch = append(r.batch, en)
		}
	}
	q.wanted, q.check = nil, nil
	clear(q.news)
	q.reading = len(r.batch) > 0
	if !q.reading {
		return nil
	}
	order := func(a, b *Entry) int { return cmp.Compare(a.Place, b.Place) }
	r.Queue, r.From, r.Upto = q.Name, slices.MinFunc(r.batch, order).Place, slices.MaxFunc(r.batch, order).Place
	all := false
	for _, en := range r.batch {
		r.Nearest = max(r.Nearest, en.need)
		all = all || en.need == 0
		if en.Limited {
			r.Marks, r.Records = true, []string{rule.RecordLimit}
		}
	}
	if all {
		r.Nearest = 0
	}
	return r
}

// Failed takes in that a read failed: the entries that waiting cannot help are refused,
// and the others want it again.
func (q *Queue) Failed(r *Read, err error) {
	for _, en := range r.batch {
		if en.state == waiting && driver.Incurable(err) {
			q.refuse(en, err)
		}
		q.want(en)
	}
}

// Recheck has the first own entry that waits read, although no event has come, and reports
// whether there is one: a connection may be silent without being closed. If that read lets the
// entry hold, or shows an end, events are missing, and all others read too.
func (q *Queue) Recheck() bool {
	q.check = nil
	for _, en := range q.own {
		if en.state == waiting && !en.leaving && (q.check == nil || en.Place < q.check.Place) {
			q.check = en
		}
	}
	if q.check != nil {
		q.want(q.check)
	}
	return q.check != nil
}

// want has the queue read for an entry.
func (q *Queue) want(en *Entry) {
	if en.wants || en.state != waiting || en.leaving {
		return
	}
	en.wants = true
	q.wanted = append(q.wanted, en)
	if !q.reading {
		q.reading = true
		q.out.Read()
	}
}

func (q *Queue) isOwn(e *driver.Entry) bool { return q.own[e.Ref] != nil }
