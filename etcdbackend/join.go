package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// Join implements driver.Session.
//
// It is one transaction: if the key is free, read the first key of the line,
// which also counts it, and put the own one behind. Sorting the line here would
// show the predecessor at once, but a transaction that writes runs on every
// member, one after another, and with 5000 in line that stopped the cluster.
func (s *leased) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	joined, err := s.join(ctx, []driver.JoinRequest{req})
	if err != nil {
		return driver.Joined{}, wrapJoin(fmt.Sprintf("etcd: join %q", req.Line), err)
	}
	return joined[0], nil
}

// JoinAll implements driver.Session. It is Join with more keys: they have one
// condition, that all are free, and one fence.
func (s *leased) JoinAll(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	what := fmt.Sprintf("etcd: join %d lines", len(reqs))
	if err := s.b.lay.checkAll(reqs); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, driver.ErrRefused, err)
	}
	all := make([]driver.JoinRequest, len(reqs))
	for i, req := range reqs {
		req.Ledger = false // that is left to Enter
		all[i] = req
	}
	joined, err := s.join(ctx, all)
	if err != nil {
		return nil, wrapJoin(what, err)
	}
	return joined, nil
}

// checkAll says why several lines cannot be joined at once.
func (l layout) checkAll(reqs []driver.JoinRequest) error {
	if n := len(reqs); n == 0 || n > maxAll {
		return fmt.Errorf("%d queues, want 1 to %d", n, maxAll)
	}
	for i, a := range reqs {
		if a.Limit != 0 || a.Follow || a.Value != nil {
			return fmt.Errorf("%q is joined with a limit or a value", a.Line)
		}
		for _, b := range reqs[:i] {
			pa, pb := l.prefix(a.Line), l.prefix(b.Line)
			if strings.HasPrefix(pa, pb) || strings.HasPrefix(pb, pa) {
				return fmt.Errorf("%q and %q are the same queue, or one contains the other", b.Line, a.Line)
			}
		}
	}
	return nil
}

// wrapJoin adds context to an error. A *driver.PendingError remains one, and
// what the line itself answered is left as it is.
func wrapJoin(what string, err error) error {
	if _, ok := errors.AsType[*driver.TakenError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*driver.LimitError](err); ok {
		return err
	}
	if p, ok := errors.AsType[*driver.PendingError](err); ok {
		return &driver.PendingError{Err: fmt.Errorf("%s: %w", what, p.Err), Settle: p.Settle}
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *leased) join(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	ctx, done := s.bound(ctx)
	defer done()
	select {
	case s.flight <- struct{}{}:
		defer func() { <-s.flight }()
	case <-ctx.Done():
	}
	switch {
	case s.ended():
		return nil, driver.ErrSessionOver
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if req := reqs[0]; len(reqs) == 1 && req.IfEmpty && s.deep.has(req.Line) {
		if err := s.peek(ctx, req); err != nil {
			return nil, err
		}
	}
	for _, req := range reqs {
		switch {
		case len(req.Value) > maxValue:
			return nil, tooLong(req.Value)
		case req.Limit < 0:
			return nil, fmt.Errorf("%w: limit %d", driver.ErrRefused, req.Limit)
		}
	}
	return s.newJoin(reqs).run(ctx)
}

// join is one request to join, over all its attempts.
type join struct {
	s     *leased
	seats []seat
	fence string // of the newest attempt

	settling sync.Mutex
	settled  bool
}

// newJoin takes a slot in every line.
func (s *leased) newJoin(reqs []driver.JoinRequest) *join {
	j := &join{s: s, seats: make([]seat, len(reqs))}
	for i, req := range reqs {
		j.seats[i] = s.newSeat(req)
	}
	j.newFence()
	return j
}

// free gives the slots back. It is called only when it is certain that no entry
// is or will be in them.
func (j *join) free() {
	for i := range j.seats {
		j.s.lines.release(j.seats[i].req.Line, j.seats[i].slot, 0)
	}
}

// newFence begins an attempt that the fences of earlier ones do not stop.
func (j *join) newFence() { j.fence = j.s.b.lay.fence(j.s.id, j.s.attempts.Add(1)) }

// run makes attempts until one is answered.
func (j *join) run(ctx context.Context) ([]driver.Joined, error) {
	tokens := 0
	for n := 0; ; n++ {
		resp, err := j.send(ctx, n)
		if err == nil {
			if resp.Succeeded {
				return j.joined(ctx, resp)
			}
			if err := j.declined(resp); err != nil {
				j.free()
				return nil, err
			}
			continue
		}
		switch out := classify(err); out {
		case sessionOver:
			j.s.lost(err)
			j.free()
			return nil, translate(err)
		case unknown, full:
			joined, again, rerr := j.resolve(ctx, out == full, err)
			if !again {
				return joined, rerr
			}
		case badToken:
			if tokens++; tokens > maxTokens {
				j.free()
				return nil, translate(err)
			}
		case denied, refused:
			j.free()
			return nil, j.s.b.lay.explain(translate(err))
		case notDone:
		}
		if err := j.s.b.pause(ctx, n, err); err != nil {
			j.free()
			return nil, err
		}
	}
}

// send makes one attempt. Without a condition that depends on the line, it is
// not asked why the attempt failed: that would make every one longer.
func (j *join) send(ctx context.Context, n int) (resp *pb.TxnResponse, err error) {
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: []byte(j.fence), Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Version{},
		}},
	}
	conditional := false
	for i := range j.seats {
		st := &j.seats[i]
		st.put(r)
		conditional = conditional || st.conditional()
	}
	if conditional {
		r.Failure = append(r.Failure, opGet(keyOnly(j.fence)))
		for i := range j.seats {
			j.seats[i].askWhy(r)
		}
	}
	err = j.s.b.once(ctx, j.s.pace, n, func(ctx context.Context) (err error) {
		resp, err = j.s.b.kv.txn(ctx, r)
		return err
	})
	return resp, err
}

// joined reads the answer to an attempt that was carried out.
func (j *join) joined(ctx context.Context, resp *pb.TxnResponse) ([]driver.Joined, error) {
	all := make([]driver.Joined, len(j.seats))
	var broken error
	rest := answers(resp.Responses)
	for i := range j.seats {
		var err error
		all[i], err = j.seats[i].joined(&rest, resp.Header.Revision)
		broken = driver.JoinErrors(broken, err)
	}
	if broken == nil {
		j.fill(all)
		return all, nil
	}
	// A limit to follow that cannot be read. It was not a condition.
	if err := j.settle(ctx); err != nil {
		return nil, j.pending(driver.JoinErrors(broken, err))
	}
	return nil, broken
}

// declined reads the answer to an attempt whose conditions did not hold. Nil
// means that another attempt may go better.
//
// Of an attempt that did not ask why it can only be that a key is there: nobody
// writes the fence of an attempt that is waited for.
func (j *join) declined(resp *pb.TxnResponse) error {
	rest := answers(resp.Responses)
	if len(rest) == 0 {
		j.move()
		return nil
	}
	stranger := rest.next().Count > 0
	var why error
	again := false
	for i := range j.seats {
		st := &j.seats[i]
		there, changed, err := st.declined(&rest)
		stranger, again = stranger || there, again || changed
		if why == nil {
			why = err
		}
	}
	switch {
	case stranger:
		j.move()
	case !again:
		return why
	}
	return nil
}

// move goes to other keys. Somebody put one with our name where we wanted to: it
// counts in the line like any other, and its slot is not used again.
func (j *join) move() {
	for i := range j.seats {
		j.s.cfg.Logger.Warn("etcd: a key of this session may exist that it did not make", "key", j.seats[i].key)
		j.seats[i].takeSlot()
	}
	j.newFence()
}

// resolve finds out what became of an attempt, and makes sure that it stays
// so. It says again if the attempt was not and will not be done.
//
// full tells that etcd answered NOSPACE: then it may have been done, cannot be
// later, and nothing more can be written.
func (j *join) resolve(ctx context.Context, full bool, cause error) (joined []driver.Joined, again bool, err error) {
	var kv *mvccpb.KeyValue
	if full {
		kv, err = j.find(ctx)
	} else {
		kv, err = j.block(ctx)
	}
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		j.s.lost(err)
		j.free()
		return joined, false, err
	case err != nil:
		return joined, false, j.pending(err)
	case kv == nil && full:
		j.free()
		return joined, false, translate(cause)
	case kv == nil:
		j.newFence()
		return joined, true, nil
	}
	for i := range j.seats {
		one, err := j.seats[i].adopt(ctx, kv.CreateRevision)
		if err != nil {
			return nil, false, j.pending(err)
		}
		joined = append(joined, one)
	}
	j.fill(joined)
	return joined, false, nil
}

// fill notes what became of the slots: when it is certain that the caller gets
// the entries, for until then free gives them back.
func (j *join) fill(all []driver.Joined) {
	for i := range j.seats {
		st := &j.seats[i]
		j.s.lines.fill(st.req.Line, st.slot, all[i].Entry.Place, int64(all[i].Ahead)+1, st.meta)
	}
}
