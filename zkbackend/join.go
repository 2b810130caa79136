package zkbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// join is one call of Join, over all its attempts. Each attempt is one transaction, with these steps
// for each queue:
//
//	toCreate   make the entry
//	toCount    write the folder, whose data is empty and stays so
//	toTouch    make and delete a child, in a folder in which the session has not joined before
//	toDetail   make the node of the detail, if the request has one
//	toOp       change records
//
// The answer to toCreate does not show the entry's czxid, but the answer to toCount has the folder's
// Stat. Its Mzxid is this transaction, which is the entry's czxid. Its NumChildren counts the queue,
// and with it children that are no entries. So a join of an empty queue needs no read.
//
// toCount would delete the data of a node of another program. require.go has what a join requires of
// its folders before it is sent.
//
// What the session knows of an attempt is in two fields, state of the join and path of each part:
//
//	state       path   at the service                           what decides next
//	settled     ""     none of its entries, and none will be    begin, which makes another attempt
//	                   except as debris
//	unsettled   ""     unknown: the entry may be there, or      resolve or settle, which list the queue
//	                   may come
//	unsettled   set    the entry was there: an answer or a      made, which returns it, or undone, which
//	                   listing has shown its node               deletes it
//
// begin leads from settled to unsettled, before anything is sent. attempt leads back when the caller
// gets the entries, and end when nothing of the attempt is left. A Join that returns an error while
// the state is unsettled returns a *driver.PendingError, and its Settle goes on from there. resolve.go
// has all that follows a lost answer, and what debris is.
type join struct {
	s     *zkSession
	parts []*joinPart // one for each request, in their order

	state joinState

	// guid is the random part of the names of the current attempt's entries. Each attempt has another
	// one, so what a late attempt makes is never taken for the entry of another.
	guid string

	// sent is the transaction of the current attempt. The answer has one result for each of its steps.
	sent transaction

	// settling makes calls of Settle run one at a time. There are none before Join has returned.
	settling sync.Mutex
}

// joinState is what can be at the service of the current attempt: see join.
type joinState int

const (
	settled joinState = iota
	unsettled
)

// joinPart is what a join has to do with one queue.
type joinPart struct {
	reader
	req driver.JoinRequest

	// version is the version of the folder's data that the attempt requires: with IfEmpty the one at
	// which the folder had no entry. It is -1 if the attempt requires none.
	version int32

	// used: the session has joined in the folder before, so it had no data and the session may delete
	// entries there. It is read again before each attempt.
	used bool

	// fresh: this join has made the folder, so it has no data.
	fresh bool

	// ops are the Ops of the request. undone makes new ones: the next attempt writes other versions.
	ops *opSet

	// cleared: debris that was first in the queue was deleted once. It is not looked for again, so a
	// queue that is full of it cannot hold up a join for ever.
	cleared bool

	// path is the node that the current attempt has made, as an answer or a listing has shown it. It is
	// "" while none has: see join.
	path string

	// zxid is the transaction that has made the node, and ahead how many children the folder had
	// besides it. They are set after path, by the answer or by the reads of find.
	zxid  int64
	ahead int
}

func newJoin(s *zkSession, reqs []driver.JoinRequest) (*join, error) {
	switch {
	case s.cfg.Observer:
		return nil, fmt.Errorf("%w: the session was opened as an Observer", driver.ErrRefused)
	case len(reqs) > maxJoin:
		return nil, fmt.Errorf("%w: %d queues in one transaction, more than %d", driver.ErrRefused, len(reqs), maxJoin)
	}
	j := &join{s: s}
	queues := make(map[string]bool)
	for _, r := range reqs {
		switch {
		case queues[r.Queue]:
			return nil, fmt.Errorf("%w: %q twice in one transaction", driver.ErrRefused, r.Queue)
		case len(r.Data) > maxData:
			return nil, tooLong(len(r.Data))
		}
		queues[r.Queue] = true
		j.parts = append(j.parts, &joinPart{reader: newReader(s, r.Queue), req: r, version: -1, ops: newOps(s, &sender{}, r.Queue, r.Ops)})
	}
	return j, nil
}

// tooLong is the error of n bytes of data.
func tooLong(n int) error {
	return fmt.Errorf("%w: data of %d bytes, more than %d", driver.ErrRefused, n, maxData)
}

// key is the part's entry of the attempt with that guid, in the registry.
func (p *joinPart) key(guid string) ownKey { return ownKey{p.req.Queue, guid} }

// errAgain: nothing is left of an attempt, so run makes another one, at once: another client has
// changed something meanwhile. Not handled: folders that are removed all the time. With a removal every
// millisecond each of 2660 joins in new folders succeeded.
var errAgain = errors.New("zookeeper: nothing is left of an attempt to join")

// run makes attempts until one is carried out, or cannot be.
func (j *join) run(ctx context.Context) ([]driver.Joined, error) {
	for {
		joined, err := j.attempt(ctx)
		if !errors.Is(err, errAgain) {
			return joined, err
		}
	}
}

// attempt makes one attempt. The answer to its transaction decides:
//
//	carried out   answered reads it, and made returns the entries
//	lost          resolve finds out what was done; if all was, made returns the entries
//	refused       nothing was done; refused decides whether another attempt can be
func (j *join) attempt(ctx context.Context) ([]driver.Joined, error) {
	if err := j.prepare(ctx); err != nil {
		return nil, err
	}
	if err := j.begin(); err != nil {
		return nil, err
	}
	a, err := j.s.conn.Once(ctx, j.sent.request())
	unknown, lost := isUnknown(err)
	switch {
	case err == nil:
		err = j.answered(a)
	case lost:
		err = j.resolve(ctx, unknown)
	default:
		j.end()
		return nil, cmp.Or(j.refused(ctx, j.sent.failed(a), err), errAgain)
	}
	if err != nil {
		return nil, err
	}
	joined, err := j.made(ctx, lost)
	if err == nil {
		j.state = settled
	}
	return joined, err
}

// prepare reads what the next transaction requires.
func (j *join) prepare(ctx context.Context) error {
	if err := j.require(ctx); err != nil {
		return err
	}
	for _, p := range j.parts {
		if p.req.IfEmpty {
			if err := j.requireEmpty(ctx, p); err != nil {
				return err
			}
		}
		if err := p.ops.prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the transaction of a new attempt. It registers the entries before they can exist,
// so that no read takes them for debris. After an error nothing is sent.
func (j *join) begin() error {
	s := j.s
	j.state = unsettled
	j.guid = random(guidLen / 2)
	j.sent = nil
	for i, p := range j.parts {
		r := &p.req
		prefix := s.b.lay.prefix(j.guid, s.seal != nil, *r)
		n, _ := parseName(prefix + "0000000000")
		if err := s.own.expect(p.key(j.guid), n, r); err != nil {
			j.end()
			return err
		}
		j.sent = append(j.sent,
			step{role: toCreate, of: i, req: create(p.folder+"/"+prefix, r.Data, zk.FlagEphemeral|zk.FlagSequence, s.entryACL)},
			step{role: toCount, of: i, req: setData(p.folder, nil, p.version)})
		if !p.used { // the session must be able to delete the entry
			for _, st := range touching(p.folder, s.acl) {
				st.of = i
				j.sent = append(j.sent, st)
			}
		}
		if r.Detail != nil {
			path := s.b.lay.details(r.Queue) + "/" + j.guid
			j.sent = append(j.sent, step{role: toDetail, of: i, req: create(path, r.Detail, zk.FlagEphemeral, s.entryACL)})
		}
		j.sent = append(j.sent, p.ops.steps(i)...)
	}
	return nil
}

// end ends an attempt of which nothing is left.
func (j *join) end() {
	for _, p := range j.parts {
		j.s.own.forget(p.key(j.guid))
		p.path = ""
	}
	j.state = settled
}

// refused decides about the step for which a server has refused the transaction. Nil means that
// another attempt may be carried out. The first line that fits counts:
//
//	step                error        what it means                                    then
//	none                classified   the transaction was not sent                     the error
//	toTouch, deletes    any          the session could not delete its entry either    the error: DELETE
//	toOp                any                                                           opSet.refused
//	toCount             BadVersion   another entry came after the folder was read     again
//	toCount             another                                                       the error: WRITE
//	toDetail            NoNode       the folder of details is not there               make it, again
//	toDetail            another                                                       the error: CREATE there
//	toCreate, toTouch   NoNode       the folder is not there                          make it, again
//	toCreate, toTouch   another                                                       the error: CREATE
func (j *join) refused(ctx context.Context, st step, err error) error {
	p := j.parts[st.of]
	details := j.s.b.lay.details(p.req.Queue)
	_, deletes := st.req.(*zk.DeleteRequest)
	switch {
	case isClassified(err):
		return err
	case st.role == toTouch && deletes:
		return translate(err, "DELETE", p.folder)
	case st.role == toOp:
		return p.ops.refused(ctx, st, err)
	case st.role == toCount && errors.Is(err, zk.ErrBadVersion):
		return nil
	case st.role == toCount:
		return translate(err, "WRITE", p.folder)
	case st.role == toDetail && isMissing(err):
		_, err = j.s.folders.ensure(ctx, details)
		return err
	case st.role == toDetail:
		return translate(err, "CREATE", details)
	case isMissing(err):
		return j.makeFolder(ctx, p)
	}
	return translate(err, "CREATE", p.folder)
}

// answered sets what the answer to the transaction shows of the entries.
func (j *join) answered(a conn.Answer) error {
	for i, st := range j.sent {
		p, result := j.parts[st.of], a.Ops[i]
		switch st.role {
		case toCreate:
			p.path = result.String
		case toCount:
			if result.Stat == nil {
				return fmt.Errorf("%w: the answer to a transaction has the wrong form", driver.ErrRefused)
			}
			p.zxid = result.Stat.Mzxid
			p.ahead = int(result.Stat.NumChildren) - 1
		default:
		}
	}
	return nil
}

// made returns the answers to an attempt that was carried out. With late, its answer was lost and
// listings have shown that, so what is known of the queues is of a time after the join.
//
// The attempt fails if an entry has one of the last numbers, or is gone by now, or if another
// entry is ahead although the queue must be empty. Then made deletes what the attempt has made.
// Only if that fails is the state still unsettled.
func (j *join) made(ctx context.Context, late bool) ([]driver.Joined, error) {
	joined := make([]driver.Joined, len(j.parts))
	var reads batch
	var failed error
	for i, p := range j.parts {
		_, text := split(p.path)
		n, ok := parseName(text)
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: the server named the entry %q", driver.ErrRefused, p.path)
		case n.isLast():
			return nil, j.undone(ctx, fmt.Errorf("%w: %w: an entry in %s got the number %d: when the queue is empty, delete that node",
				driver.ErrRefused, ErrSequence, p.folder, n.seq))
		}
		j.s.used.put(p.folder, true, nil)
		joined[i] = j.joined(p, n)
		// A long queue is not listed for each entry that joins: the engine reads it once for all.
		list := p.ahead > 0 && (p.ahead <= atOnce || p.req.IfEmpty)
		if list {
			reads.addFolder(p.folder, func(a conn.Answer) {
				view, err := j.ahead(ctx, p, n, a.Children)
				joined[i].View = view
				failed = cmp.Or(failed, err)
			})
		}
		j.addRecords(&reads, p, &joined[i].View, late || list)
	}
	err := reads.run(ctx, j.s, false)
	for i, p := range j.parts {
		if err == nil && failed == nil {
			err = p.inspect(ctx, joined[i].View.Entries, nil, false)
		}
	}
	err = cmp.Or(failed, err)
	if err != nil {
		return nil, j.undone(ctx, err)
	}
	return joined, nil
}

// joined is the answer to one request, without a listing of the queue.
func (j *join) joined(p *joinPart, n entryName) driver.Joined {
	p.ops.done(p.zxid)
	own := j.s.own.of(p.key(j.guid))
	if own != nil {
		own.token = p.zxid
	}
	e := n.entry(p.req.Queue, p.folder)
	e.Token, e.Session, e.Data, e.Detail = p.zxid, j.s.ID(), p.req.Data, p.req.Detail
	return driver.Joined{Entry: e, View: driver.View{Count: p.ahead, Complete: p.ahead == 0}, Ops: p.ops.results()}
}

// ahead returns the part of the queue that is ahead of an entry, from a listing that was made after
// the join. It returns errAgain if the listing does not have the entry: another client has deleted
// it, and the listing does not show what was ahead of it. It returns a *driver.TakenError if the
// queue must be empty and is not: a program that does not write the folder was faster.
func (j *join) ahead(ctx context.Context, p *joinPart, n entryName, children []string) (driver.View, error) {
	names := parseNames(children)
	end := behind(names, n.place()-1)
	if end == len(names) || names[end].text != n.text {
		return driver.View{}, errAgain
	}
	if p.req.IfEmpty && end > 0 {
		return driver.View{}, j.taken(ctx, p, names[:end])
	}
	return p.view(names[:end], driver.ReadRequest{Upto: n.place(), Nearest: p.req.Nearest}), nil
}

// addRecords adds the reads of the records that the request has named. They must not be older
// than the entries of the view. The record of an Op is of the moment of the join, so with late,
// when the entries are of a later moment, it is read too.
func (j *join) addRecords(b *batch, p *joinPart, v *driver.View, late bool) {
	records := make(map[string]driver.Record)
	for _, name := range p.req.Records {
		add := func(r driver.Record) {
			if r.Version != 0 {
				records[name] = r
			}
			v.Records = records // the listing comes before, and makes another view
		}
		op := slices.IndexFunc(p.req.Ops, func(op driver.Op) bool { return op.Record == name })
		if op >= 0 && p.ops.plans[op].state == opDone && !late {
			add(p.ops.plans[op].record)
		} else {
			b.addRecord(j.s, recordKey{p.req.Queue, name}, add)
		}
	}
}
