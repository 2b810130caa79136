package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// queue is what this process knows of one queue, has in it, and waits for in it. Facts go
// in by joined, learned, event, left and marked. Each changes the picture, and has those own
// entries decided that the fact can concern.
//
// Nothing here sends, blocks or locks: that is asked of outside. The engine's mutex guards
// all of it.
type queue struct {
	name    string
	out     outside
	pic     picture
	own     table[driver.Ref, *entry]
	watches table[driver.Target, *watch]
	limit   driver.Record // of a semaphore, the newest that is known

	wanted  []*entry // want a read
	check   *entry   // see recheck; nil: none
	reading bool     // a goroutine reads

	// news are the newest changes of entries since the read under way began. eventCount counts
	// the changes that events have shown, ever.
	news       map[driver.Ref]change // nil until it is needed
	eventCount uint64

	// replaced is the last place whose entry is gone and may have another one with the same
	// number, which is not known. Only a view of all that are ahead grants until one shows what is
	// there; 0: none.
	replaced int64

	// The engine's part.
	users  int         // requests that join it, or wait
	joins  int         // those of them whose join is not answered yet
	idle   bool        // it is freed soon if nothing uses it
	reread func() bool // stops the timer of the next read without an event; nil: none
	head   *first      // for errors; nil: none is good enough
}

// outside is what a queue asks for. Nothing of it calls the queue before it returns.
type outside interface {
	watch(w *watch)  // has the service report w.target
	read(q *queue)   // reads, as long as entries want that
	waits(en *entry) // is called for an entry that may have to wait
	lost(en *entry)  // ends the hold of an entry, if it has one
	firsts() bool    // reports whether the service has ever reported Event.First

	// doubts are the session's: they concern the entries of all queues. lost raises one, and
	// so does doubt.
	doubts() *doubts
	doubt()
}

// entry is one entry of ours.
type entry struct {
	*driver.Entry // the picture's
	q             *queue
	g             *group
	n             int // in the group
	rule          rule.Rule
	try           bool // it is not to wait
	whole         bool // the last view that showed it has all that were ahead
	limited       bool // there was a limit when it joined, or in a view that showed it

	state   state
	leaving bool // it is asked to leave, or will be
	lost    bool // it went without that

	count   int  // how many are ahead, as last known
	waited  int  // how many were when it joined
	first   bool // at some time there were none
	foreign bool // another program's entry was seen right before it

	shown   uint64        // how many doubts there were before a request was sent whose answer shows it
	need    int           // how many of the nearest its next read shows; 0: all
	wants   bool          // it is among q.wanted
	turn    bool          // it may hold, if it lives: its watch will show that
	guard   *watch        // on the entry itself; nil: none
	on      []*watch      // what it waits for
	blocker *driver.Entry // what it waited for last
	asked   driver.Ref    // the blocker whose description was asked for
}

// state is where an own entry is in its life. It only goes forward.
type state uint8

const (
	waiting state = iota
	held
	over
)

// proof is what a fact proves of own entries that it concerns: that they existed at
// the moment at which the fact was true.
type proof uint8

const (
	noProof proof = iota
	byEvent       // nothing by itself; but an armed watch on the entry is silent
	byLeave       // the session lived: the fact is a change by it that was acknowledged
	byView        // the entry lived: the answer shows it
)

// forget empties the picture of a queue without own entries. The answer to a read under way is
// still to come.
func (q *queue) forget() { q.pic = picture{described: q.pic.described} }

// change is a change of an entry: that it has ended, or has a mark.
type change struct {
	ended bool
	how   proof
}

// joined takes in an own entry. doubts is how many there were before the join was sent.
func (q *queue) joined(en *entry, j driver.Joined, doubts uint64) {
	q.joins--
	en.q, en.need = q, rule.Nearest
	if en.count = j.View.Count; en.count > 0 {
		en.waited = en.count
		q.out.waits(en)
	}
	complete, how := j.View.Complete || en.count == 0, noProof
	hasLimit, newest := q.learnLimit(j.View)
	en.limited = hasLimit || en.rule.Limited && foundLimit(j.Ops)
	if complete && (newest || !en.rule.Limited) {
		how = byView
	}
	holder := false // the join shows a holder that the picture lacks: it may have ended meanwhile
	for _, e := range j.View.Entries {
		switch i := q.pic.index(e.Ref); {
		case i < 0:
			holder = holder || e.Marks.Has(driver.MarkAdmitted)
		case !e.Marks.Has(q.pic.es[i].Marks):
			how = byEvent // more is known than there was to see, perhaps of a later moment
		}
	}
	lo, hi, doubts, _ := q.splice(append(slices.Clip(j.View.Entries), j.Entry), complete, j.Entry.Place, doubts)
	en.Entry, en.shown = q.pic.es[hi-1], doubts
	en.Token = j.Entry.Token // a read may have shown the entry before, without it
	en.whole = complete
	q.own.put(en.Ref, en)
	if lo > 2*(j.View.Count+q.own.len()) { // most of those are gone, and no event has reported it
		q.pic.forget(lo, func(e *driver.Entry) bool { return q.isOwn(e) || q.watches.get(e.Target()) != nil })
	}
	if w := q.watches.get(en.Target()); w != nil { // it was taken for another session's
		w.own, en.guard = en, w
	}
	q.decide(en, how)
	if holder {
		for _, e := range q.pic.es {
			if other := q.own.get(e.Ref); other != nil && other != en {
				q.want(other) // the watch on the holders reports no end twice
			}
		}
	}
}

// pendingRead is a read that was sent, or is about to be.
type pendingRead struct {
	driver.ReadRequest
	batch  []*entry // those that want it
	check  *entry   // see recheck; may be nil
	doubts uint64
}

// next returns the read that serves all entries that want one, nil if none does.
func (q *queue) next() *pendingRead {
	a := &pendingRead{doubts: q.out.doubts().n}
	for _, en := range q.wanted {
		if en.wants = false; en.state == waiting && !en.leaving {
			a.batch = append(a.batch, en)
		}
	}
	q.wanted, a.check, q.check = nil, q.check, nil
	clear(q.news)
	if q.reading = len(a.batch) > 0; !q.reading {
		return nil
	}
	order := func(a, b *entry) int { return cmp.Compare(a.Place, b.Place) }
	a.Queue, a.From, a.Upto = q.name, slices.MinFunc(a.batch, order).Place, slices.MaxFunc(a.batch, order).Place
	a.Detail = q.pic.described
	all := false
	for _, en := range a.batch {
		a.Nearest, all = max(a.Nearest, en.need), all || en.need == 0
		if en.rule.Limited {
			a.Marks, a.Records = true, []string{rule.RecordLimit}
		}
	}
	if all {
		a.Nearest = 0
	}
	return a
}

// learned takes in the answer to a read. It proves of each own entry that it shows that
// the entry lived at that moment. The view may be older than what is known: it may show an
// entry that has ended or changed since, or not reach one that has. For own entries behind
// such an entry the view alone is no proof. late is the place of the first such entry.
// lateLimit is the same for permits, for which the view is too old behind an answer to
// Leave too, because the limit can have fallen between the two.
func (q *queue) learned(a *pendingRead, v driver.View) {
	late, lateLimit, weakest := int64(math.MaxInt64), int64(math.MaxInt64), byEvent
	newer := func(ref driver.Ref, how proof) {
		if failpoint.On(failpoint.LateView) {
			return
		}
		if lateLimit = min(lateLimit, ref.Place); how != byLeave {
			late, weakest = min(late, ref.Place), min(weakest, how)
		}
	}
	if !v.Complete && len(v.Entries) > 0 {
		for ref, c := range q.news {
			if ref.Place < v.Entries[0].Place {
				newer(ref, c.how)
			}
		}
	}
	view := slices.DeleteFunc(v.Entries, func(e driver.Entry) bool {
		c, isNews := q.news[e.Ref]
		if isNews {
			newer(e.Ref, c.how)
		}
		if c.ended && mayBeReplaced(&e) { // nor does it show what has replaced it
			q.replaced = max(q.replaced, e.Place)
		}
		return c.ended // an old view does not bring it back
	})
	if v.Complete && late == math.MaxInt64 && a.Upto >= q.replaced {
		q.replaced = 0
	}
	lo, hi, doubts, ended := q.splice(view, v.Complete, a.Upto, a.doubts)
	if ended && !slices.ContainsFunc(q.pic.es[lo:hi], q.isOwn) {
		q.out.doubts().raise() // nothing shows that the session existed when these had ended
	}
	hasLimit, newest := q.learnLimit(v)
	from := lo
	for from > 0 && from < hi && !q.pic.gaps[from] {
		from--
	}
	for i := lo; i < hi; i++ {
		if q.pic.gaps[i] {
			from = i
		}
		en := q.own.get(q.pic.es[i].Ref)
		if en == nil {
			continue
		}
		en.shown, en.whole = max(en.shown, doubts), v.Complete
		how := byView
		switch {
		case q.replaced != 0 && !v.Complete:
			how = noProof // the picture may lack a reader, in what the view does not reach
		case en.Place > late:
			how = weakest
		case en.rule.Limited && (en.Place > lateLimit || !newest):
			how = byEvent
		}
		en.limited = en.limited || hasLimit
		if en.rule.Limited && len(a.Records) > 0 && !hasLimit && en.state == waiting {
			q.refuseUnlimited(en)
		}
		q.judge(en, q.pic.es[from:i], !q.pic.gaps[from], how)
	}
	if a.check != nil && (ended || a.check.state == held) { // events may be missing, see recheck
		for _, en := range q.own.all() {
			q.want(en)
		}
	}
}

// recheck has the first own entry that waits read, although no event has come, and reports
// whether there is one. If that read lets it hold, or shows an end, all others read too.
func (q *queue) recheck() bool {
	q.check = nil
	for _, en := range q.own.all() {
		if en.state == waiting && !en.leaving && (q.check == nil || en.Place < q.check.Place) {
			q.check = en
		}
	}
	if q.check != nil {
		q.want(q.check)
	}
	return q.check != nil
}

func (q *queue) isOwn(e *driver.Entry) bool { return q.own.get(e.Ref) != nil }

// splice takes a view into the picture. doubts is how many there were before the view was
// asked for. If the view lacks an own entry, all that it shows lived when that one was gone, so
// the doubt that this raises is resolved for them. ended reports whether something that was
// known is gone.
func (q *queue) splice(view []driver.Entry, complete bool, upto int64, doubts uint64) (lo, hi int, _ uint64, ended bool) {
	lo, hi, gone := q.pic.splice(view, complete, upto)
	for _, e := range gone {
		if en := q.own.get(e.Ref); en != nil {
			if doubts == q.out.doubts().n {
				doubts++
			}
			q.vanish(en)
		}
	}
	return lo, hi, doubts, len(gone) > 0
}

// failed takes in that a read failed: the entries that waiting cannot help are refused,
// and the others want it again.
func (q *queue) failed(a *pendingRead, err error) {
	for _, en := range a.batch {
		if en.state == waiting && driver.Incurable(err) {
			q.refuse(en, err)
		}
		q.want(en)
	}
}

// errLimitGone: an operator has deleted the limit while the entry waited. A new join makes it anew.
var errLimitGone = errors.New("the limit of the semaphore was deleted at the service")

// errNoLimit: not even the join has made one, because the service does not permit that.
var errNoLimit = fmt.Errorf("%w: the semaphore has no limit at the service", session.ErrRefused)

// refuseUnlimited refuses an entry whose queue has no limit.
func (q *queue) refuseUnlimited(en *entry) {
	why := errNoLimit
	if en.limited {
		why = errLimitGone
	}
	if failpoint.On(failpoint.LimitMissed) {
		why = errNoLimit
	}
	q.refuse(en, why)
}

// foundLimit reports whether a join has found a limit, or made one. It asked for that first. Its view
// can be of a later moment.
func foundLimit(results []driver.Result) bool {
	return len(results) > 0 && (results[0].Done || results[0].Record.Version != 0)
}

// learnLimit takes in the limit, and reports whether a view shows it, and whether no newer
// one is known: answers overtake each other.
func (q *queue) learnLimit(v driver.View) (ok, newest bool) {
	r, ok := v.Records[rule.RecordLimit]
	newest = r.Token >= q.limit.Token
	if failpoint.On(failpoint.OldLimit) && q.limit.Version != 0 {
		return ok, true
	}
	if ok && newest {
		q.limit = r
	}
	return ok, newest
}
