package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	// maxJoin is the most entries that are made at once: etcd takes 128 operations in a
	// transaction by default, and an entry takes two or three.
	maxJoin = 32
	// maxData is the most bytes of an entry's data: etcd takes requests of 1.5 MiB.
	maxData   = 1 << 20
	maxDetail = 2 << 10
	// maxSorted is how many entries a queue may have had for the next join to sort it.
	// A transaction that writes runs on every member, one after another; when every join
	// sorted, 5000 entries stopped a cluster.
	maxSorted = 200
	// deep is from how many entries on a queue is read before a join that wants it empty.
	// etcd reads all of it, with values, to find out whether it is.
	deep = 32
	// maxDetails is how many details a refused Join reads: that of a mutex's holder is
	// among them, and a thousand readers cost no more.
	maxDetails = 8
)

// Join implements driver.Session.
//
// It is one transaction: if the keys are free, read who is ahead in each queue, and put
// the own entry behind. What is read is the first key, which also counts them; or the
// nearest ones, if the queue was short when it was last seen.
func (s *etcdSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	joined, err := s.join(ctx, reqs)
	if err == nil {
		return joined, nil
	}
	what := fmt.Sprintf("etcd: join %d queues", len(reqs))
	if len(reqs) == 1 {
		what = fmt.Sprintf("etcd: join %q", reqs[0].Queue)
	}
	if p, ok := errors.AsType[*driver.PendingError](err); ok {
		return nil, &driver.PendingError{Err: fmt.Errorf("%s: %w", what, p.Err), Settle: p.Settle}
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

func (s *etcdSession) join(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	if err := s.checkJoin(reqs); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	if err := enter(ctx, s.joining); err != nil {
		return nil, err
	}
	defer func() { <-s.joining }()
	j := &join{s: s, parts: make([]part, len(reqs))}
	for i := range reqs {
		p := &j.parts[i]
		p.JoinRequest = &reqs[i]
		q, _, found := s.lookup(p.Queue)
		var err error
		if p.ops, err = s.ops(q, p.Ops); err == nil && p.IfEmpty && found >= deep {
			err = s.peek(ctx, p.JoinRequest)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range j.parts {
		j.parts[i].take(s)
	}
	return j.run(ctx)
}

// checkJoin returns why the entries cannot be made, or not at once.
func (s *etcdSession) checkJoin(reqs []driver.JoinRequest) error {
	if s.lease == nil {
		return errors.New("an observer makes no entries")
	}
	if n := len(reqs); n == 0 || n > maxJoin {
		return fmt.Errorf("%d queues, want 1 to %d", n, maxJoin)
	}
	for i := range reqs {
		a := &reqs[i]
		if len(a.Data) > maxData || len(a.Detail) > maxDetail || a.Weight < 0 {
			return fmt.Errorf("weight %d, data of %d bytes and detail of %d, at most %d and %d", a.Weight, len(a.Data), len(a.Detail), maxData, maxDetail)
		}
		for _, b := range reqs[:i] {
			if a.Queue == b.Queue || s.b.lay.within(a.Queue, b.Queue) || s.b.lay.within(b.Queue, a.Queue) {
				return fmt.Errorf("%q and %q are the same queue, or one contains the other", b.Queue, a.Queue)
			}
		}
	}
	return nil
}

// peek returns a *driver.TakenError if a queue that must be empty is not. The answer of a
// transaction would be the same. Nil promises nothing.
func (s *etcdSession) peek(ctx context.Context, req *driver.JoinRequest) error {
	v, err := s.Read(ctx, driver.ReadRequest{Queue: req.Queue, Nearest: 1, Detail: !req.Valued, Fresh: true})
	if err != nil || len(v.Entries) == 0 {
		return err
	}
	return &driver.TakenError{Queue: req.Queue, First: v.Entries[0], Count: v.Count}
}

// join is one call of Join, over all its attempts.
type join struct {
	s      *etcdSession
	parts  []part
	fence  []byte // of the newest attempt
	joined []driver.Joined

	mu      sync.Mutex
	settled bool
}

// part is one queue of a join.
type part struct {
	*driver.JoinRequest
	own    *own
	sorted bool // the entries ahead are read in order
	ops    ops

	joined  driver.Joined
	foreign bool               // another program has made a key with our name
	taken   *driver.TakenError // why there is no entry in the queue
}

func (p *part) take(s *etcdSession) {
	var found int64
	p.own, found = s.take(p.JoinRequest)
	p.sorted = 0 < found && found <= maxSorted
}

// free gives the keys back. It is called only when it is certain that no entry has them,
// or will have.
func (j *join) free() {
	for i := range j.parts {
		j.s.release(j.parts[i].own)
	}
}

// run returns the entries.
func (j *join) run(ctx context.Context) ([]driver.Joined, error) {
	err := j.s.exchange(ctx, j)
	if _, pending := errors.AsType[*driver.PendingError](err); err != nil && !pending {
		j.free()
	}
	return j.joined, err
}

// strip implements exchange.
func (j *join) strip(error) (more bool) {
	for i := range j.parts {
		more = j.parts[i].ops.strip() || more
	}
	return more
}

// request implements exchange. The fence of an earlier attempt does not stop the next one,
// and nothing writes that of an attempt that is waited for. Without a condition that
// depends on the queue, an attempt does not ask why it failed, because that would make
// every attempt longer: then another program has made a key.
func (j *join) request() *txn {
	t, conditional := &txn{}, false
	j.fence = j.s.b.lay.serial(fenceFolder, j.s.lease.ID, j.s.serials.Add(1))
	t.require(created(j.fence, 0))
	for i := range j.parts {
		p := &j.parts[i]
		p.foreign = true // unless the answer to ask shows why
		p.add(t, j.s)
		conditional = conditional || p.IfEmpty || p.ops.required()
	}
	if !conditional {
		t.Failure = nil
	}
	return t
}

// add adds what makes the entry, and what shows why it was not made.
func (p *part) add(t *txn, s *etcdSession) {
	q := p.own.q
	t.require(created(p.own.key, 0))
	t.ask(keyOnly(p.own.key), func(r *pb.RangeResponse) { p.foreign = r.Count > 0 })
	if p.IfEmpty {
		p.wantEmpty(t, s)
	}
	ahead := below(q.prefix, 1) // before the own entry, which is not to be counted
	if ahead.KeysOnly = true; p.sorted {
		inOrder(ahead, pb.RangeRequest_DESCEND)
		if ahead.Limit = int64(p.Nearest); p.Nearest == 0 {
			ahead.Limit = maxSorted
		}
	}
	t.get(ahead, func(r *pb.RangeResponse) { p.made(s, t.rev, r) })
	t.do(opPut(p.own.key, p.Data, p.own.lease), nil)
	if p.Detail != nil {
		t.do(opPut(q.detailKey(p.own.ref.Key), p.Detail, p.own.lease), nil)
	}
	p.ops.add(t)
	for _, rec := range q.asked(p.Records) {
		t.get(rec, func(r *pb.RangeResponse) { q.records(&p.joined.View, r) })
	}
}

// wantEmpty makes the entry only if the queue is empty.
func (p *part) wantEmpty(t *txn, s *etcdSession) {
	q, front := p.own.q, inOrder(below(p.own.q.prefix, 1), pb.RangeRequest_ASCEND)
	empty := created(front.Key, 0)
	empty.RangeEnd = front.RangeEnd
	t.require(empty)
	front.KeysOnly = p.Valued // among values, the first entry is likely to have one too
	t.ask(front, func(r *pb.RangeResponse) {
		s.saw(q, r.Count)
		if p.taken = nil; r.Count > 0 {
			p.taken = &driver.TakenError{Queue: p.Queue, First: q.entry(r.Kvs[0]), Count: int(r.Count)}
			if !p.Valued {
				reveal(&p.taken.First, r.Kvs[0])
			}
		}
	})
	t.ask(below(q.side+detailFolder, maxDetails), func(r *pb.RangeResponse) {
		for _, kv := range r.Kvs {
			if p.taken != nil && string(kv.Key) == string(q.detailKey(p.taken.First.Key)) {
				p.taken.First.Detail = kv.Value
			}
		}
	})
}

// made takes in that the own entry was made, at a revision, and what an answer shows of
// those ahead.
func (p *part) made(s *etcdSession, rev int64, ahead *pb.RangeResponse) {
	s.made(p.own, rev, p.Detail != nil, ahead.Count)
	p.joined = driver.Joined{
		Entry: driver.Entry{
			Ref: p.own.ref, Mode: p.Mode, Weight: p.own.weight, Valued: p.Valued,
			Token: rev, Session: s.ID(), Data: p.Data, Detail: p.Detail,
		},
		View: driver.View{Count: int(ahead.Count), Complete: ahead.Count == 0},
	}
	if !p.sorted && ahead.Count != 1 {
		return // the one that was read may be any
	}
	slices.Reverse(ahead.Kvs)
	v := &p.joined.View
	v.Entries, v.Complete = p.own.q.entries(ahead.Kvs), len(ahead.Kvs) == int(ahead.Count)
	s.remember(p.own.q, rev, ahead.Kvs, v.Entries)
}

// answered implements exchange.
func (j *join) answered(ctx context.Context, t *txn, met bool) (again bool, err error) {
	if met {
		j.made(ctx, t.rev)
		return false, nil
	}
	var refused *driver.RefusedError
	foreign := false
	for i := range j.parts {
		p := &j.parts[i]
		j.s.learn(p.Queue, t.rev)
		if p.taken != nil {
			return false, p.taken
		}
		r, flipped := p.ops.refused(p.own.q)
		if refused == nil {
			refused = r
		}
		foreign, again = foreign || p.foreign, again || flipped
	}
	if refused != nil {
		return false, refused
	}
	if foreign || !again {
		j.move()
	}
	return true, nil
}

// made takes in that the entries were made, at a revision. Of those of other programs
// ahead, it reads what the answer has not shown; if it cannot, they stay as they are.
func (j *join) made(ctx context.Context, rev int64) {
	j.s.hub.Wrote(rev)
	for i := range j.parts {
		p := &j.parts[i]
		p.joined.Ops = p.ops.results(false)
		_ = j.s.complete(ctx, p.own.q, rev, &driver.ReadRequest{Upto: rev}, nil, p.joined.View.Entries)
		j.joined = append(j.joined, p.joined)
	}
}

// move goes to other keys. Another program put one with our name where we wanted to: it
// counts in the queue like any other, and its index is not used again.
func (j *join) move() {
	for i := range j.parts {
		p := &j.parts[i]
		j.s.cfg.Logger.Warn("etcd: a key of this session may exist that it did not make", "key", p.own.ref.Key)
		p.own.retired = true
		j.s.release(p.own)
		p.take(j.s)
	}
}
