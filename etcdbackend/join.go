package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// maxJoin is the most entries that are made at once: etcd takes 128 operations in a
	// transaction by default, and an entry takes two or three.
	maxJoin = 32
	// maxData is the most bytes of an entry's data: etcd takes requests of 1.5 MiB.
	maxData   = 1 << 20
	maxDetail = 2 << 10
	// maxSorted is the most entries that a queue may have had when a join sorts it. A
	// transaction that writes runs on every member, one after another: when every join
	// sorted, 5000 entries stopped a cluster.
	maxSorted = 200
)

// join is one call of Join, over all its attempts. An attempt is one transaction. If the
// fence is as it was last known, and the keys of the new entries do not exist, it reads the
// entries ahead in each queue, and then puts the new ones. If the queue was short when it was
// last counted, it reads the nearest entries in order; else any one, and the answer also
// counts them.
//
// An attempt without an answer may have been carried out, or may be later. The next step
// is then to read the keys of the entries (see place). If one exists, the attempt was
// carried out, and the join has succeeded. If not, the same transaction writes the fence:
// then the attempt can no longer be carried out, and another one is made. The next attempts,
// and later joins, depend on the fence as it is then.
//
//	attempt  the conditions held         joined
//	         a condition did not hold    another attempt, or an error: see answered
//	         no answer                   place
//	place    an entry is there           adopt
//	         the fence is written        another attempt
//	         no answer until ctx ends    *driver.PendingError, whose Settle undoes the join
//	adopt    those ahead are counted     joined
//	         no answer until ctx ends    as in place
type join struct {
	s     *etcdSession
	parts []part // one for each request, in their order

	// fence is the cell on which all attempts depend. It is another one after another program
	// has changed it. No other call uses it until this one is over, or is settled.
	fence  *cell
	broken bool // the newest answer shows that another program has changed the fence

	joined []driver.Joined // in the order of parts; empty until all entries are made

	mu      sync.Mutex // guards settled, and orders calls of settle
	settled bool       // nothing of the join is left, and its keys may be another's by now
}

// part is the entry in one queue of a join.
type part struct {
	*driver.JoinRequest
	own    *own // the reserved key, and the entry once it is made; another one after move
	sorted bool // the entries ahead are read in order
	ops    ops

	// joined and taken are what the newest attempt has shown: taken is nil unless the queue
	// should have been empty and was not.
	joined driver.Joined
	taken  *driver.TakenError
}

// do makes the entries. After an error that is no *driver.PendingError, their keys can be
// used again.
func (j *join) do(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	if err := j.check(reqs); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	if err := j.s.joining.begin(ctx); err != nil {
		return nil, err
	}
	defer j.s.joining.end()
	j.parts = make([]part, len(reqs))
	for i := range reqs {
		p := &j.parts[i]
		p.JoinRequest = &reqs[i]
		q, _ := j.s.queues.lookup(p.Queue)
		var err error
		p.ops, err = newOps(q, p.Ops, j.s.lease.ID)
		if err != nil {
			return nil, err
		}
	}
	for i := range j.parts {
		j.parts[i].reserve(j.s)
	}
	j.fence = j.s.fences.take(j.s)
	err := j.s.cluster.perform(ctx, j, rpc.Attempt{})
	if _, pending := errors.AsType[*driver.PendingError](err); pending {
		return nil, err
	}
	j.s.fences.free(j.fence)
	if err != nil {
		j.free()
	}
	return j.joined, err
}

// check returns why the entries cannot be made, or not at once.
func (j *join) check(reqs []driver.JoinRequest) error {
	if j.s.lease.ID == 0 {
		return errors.New("an observer makes no entries")
	}
	n := len(reqs)
	if n == 0 || n > maxJoin {
		return fmt.Errorf("%d queues, want 1 to %d", n, maxJoin)
	}
	for i := range reqs {
		a := &reqs[i]
		if len(a.Data) > maxData || len(a.Detail) > maxDetail || a.Weight < 0 {
			return fmt.Errorf("weight %d, data of %d bytes and detail of %d, at most %d and %d", a.Weight, len(a.Data), len(a.Detail), maxData, maxDetail)
		}
		// Entries of one transaction have one place. If one queue contained the other, a waiter
		// that reads both would find neither ahead of the other.
		for _, b := range reqs[:i] {
			if a.Queue == b.Queue || j.s.lay.within(a.Queue, b.Queue) || j.s.lay.within(b.Queue, a.Queue) {
				return fmt.Errorf("%q and %q are the same queue, or one contains the other", b.Queue, a.Queue)
			}
		}
	}
	return nil
}

// reserve chooses the key of the entry.
func (p *part) reserve(s *etcdSession) {
	var found int64
	p.own, found = s.queues.reserve(p.JoinRequest)
	p.sorted = 0 < found && found <= maxSorted
}

// free lets the keys be used again. It is called only when it is certain that they do not
// exist, and that no request can still make them.
func (j *join) free() {
	for i := range j.parts {
		j.s.queues.free(j.parts[i].own)
	}
}

// strip implements call.
func (j *join) strip(error) (more bool) {
	for i := range j.parts {
		more = j.parts[i].ops.strip() || more
	}
	return more
}

// attempt implements call.
func (j *join) attempt() *txn {
	t := &txn{}
	t.require(written(j.fence.key, j.fence.written))
	t.elseGet(keyOnly(j.fence.key), func(r *pb.RangeResponse) { j.broken = head(r).GetModRevision() != j.fence.written })
	for i := range j.parts {
		j.parts[i].add(t, j.s)
	}
	return t
}

// add adds to a transaction what makes the entry. The read of those ahead comes before the
// put, so it does not count the new entry.
func (p *part) add(t *txn, s *etcdSession) {
	q := p.own.q
	t.require(created(p.own.key, 0))
	if p.IfEmpty {
		p.requireEmpty(t, s)
	}
	ahead := below(q.prefix, 1)
	ahead.KeysOnly = true
	if p.sorted {
		inOrder(ahead, pb.RangeRequest_DESCEND)
		ahead.Limit = int64(p.Nearest)
		if p.Nearest == 0 {
			ahead.Limit = maxSorted
		}
	}
	t.thenGet(ahead, func(r *pb.RangeResponse) { p.made(s, t.rev, r) })
	t.then(opPut(p.own.key, p.Data, p.own.lease), nil)
	if p.Detail != nil {
		t.then(opPut(q.detailKey(p.own.ref.Key), p.Detail, p.own.lease), nil)
	}
	p.ops.add(t)
	for _, rec := range q.namedRecords(p.Records) {
		t.thenGet(rec, func(r *pb.RangeResponse) { q.addRecords(&p.joined.View, r) })
	}
}

// requireEmpty adds the condition that the queue is empty, and a read of the first entry if
// it is not. The answer has no detail of that entry, so it shows since when the holder asks,
// and not since when it holds.
//
// Not handled: a queue of thousands. To check the condition, etcd reads all entries with
// their values, and to find the first one, it sorts them, on every member. This stays so,
// because programs seldom try a lock for which thousands wait.
func (p *part) requireEmpty(t *txn, s *etcdSession) {
	q := p.own.q
	front := inOrder(below(q.prefix, 1), pb.RangeRequest_ASCEND)
	front.KeysOnly = p.Valued // then the first entry is likely to be valued too, and long
	empty := created(front.Key, 0)
	empty.RangeEnd = front.RangeEnd // it must hold for each key of the range, so there must be none
	t.require(empty)
	t.elseGet(front, func(r *pb.RangeResponse) {
		s.queues.count(q.name, r.Count)
		p.taken = nil
		if r.Count > 0 {
			p.taken = &driver.TakenError{Queue: p.Queue, First: q.entry(r.Kvs[0]), Count: int(r.Count)}
			if !p.Valued {
				reveal(&p.taken.First, r.Kvs[0])
			}
		}
	})
}

// made records that the entry was made at a revision, and what the answer shows of the
// entries ahead:
//
//	sorted                  the nearest ones, with the last first, and how many there are
//	not sorted, one ahead   that one
//	not sorted, any other   how many there are; which one the answer has is not known
func (p *part) made(s *etcdSession, rev int64, ahead *pb.RangeResponse) {
	s.queues.made(p.own, rev, p.Detail != nil, ahead.Count)
	p.joined = driver.Joined{
		Entry: driver.Entry{
			Ref: p.own.ref, Mode: p.Mode, Weight: p.own.weight, Valued: p.Valued,
			Token: rev, Session: s.ID(), Data: p.Data, Detail: p.Detail,
		},
		View: driver.View{Count: int(ahead.Count), Complete: ahead.Count == 0},
	}
	if !p.sorted && ahead.Count != 1 {
		return
	}
	slices.Reverse(ahead.Kvs)
	v := &p.joined.View
	v.Entries, v.Complete = p.own.q.entries(ahead.Kvs), len(ahead.Kvs) == int(ahead.Count)
	s.queues.remember(p.Queue, rev, ahead.Kvs, v.Entries)
}

// answered implements call. If a condition did not hold, the transaction has read all
// that the conditions depend on, but for the keys of the new entries. So if the reads show
// no reason, another program has made one of these keys. In this order:
//
//	the conditions held                       the entries are made
//	the fence is not as it was                another attempt, with another fence: what
//	                                          depended on this one may still be carried out
//	a queue with IfEmpty is not empty         the first such is the error
//	a record does not meet its condition      the first such is the error
//	the other half of "equal or absent" does  another attempt, with that half
//	nothing of these                          another attempt, with other keys
func (j *join) answered(ctx context.Context, t *txn, met bool) (again bool, err error) {
	if met {
		j.made(ctx, t.rev, false)
		return false, nil
	}
	if j.broken {
		j.s.log.Warn("etcd: another program has changed a key of this session", "key", string(j.fence.key))
		j.fence = j.s.fences.take(j.s)
		return true, nil
	}
	var refused *driver.RefusedError
	for i := range j.parts {
		p := &j.parts[i]
		j.s.queues.learn(p.Queue, t.rev)
		if p.taken != nil {
			return false, p.taken
		}
		r, flipped := p.ops.refused(p.own.q)
		if refused == nil {
			refused = r
		}
		again = again || flipped
	}
	if refused != nil {
		return false, refused
	}
	if !again {
		j.move()
	}
	return true, nil
}

// made records that the entries were made at a revision. settled reports that no answer
// showed it, but a later read. What the answer does not show of other programs' entries
// ahead is read now. An error of this read is ignored: the join has succeeded, and a
// waiter reads again when it matters.
func (j *join) made(ctx context.Context, rev int64, settled bool) {
	j.s.hub.Wrote(rev)
	for i := range j.parts {
		p := &j.parts[i]
		p.joined.Ops = p.ops.results(settled)
		_ = j.s.reader.complete(ctx, p.own.q, rev, &driver.ReadRequest{Upto: rev}, nil, p.joined.View.Entries)
		j.joined = append(j.joined, p.joined)
	}
}

// move chooses other keys, because another program has made a key in the form of this
// session's. That key is an entry like any other, and its index is not used again.
func (j *join) move() {
	for i := range j.parts {
		p := &j.parts[i]
		j.s.log.Warn("etcd: a key of this session may exist that it did not make", "key", p.own.ref.Key)
		p.own.retired = true
		j.s.queues.free(p.own)
		p.reserve(j.s)
	}
}
