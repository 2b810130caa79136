package etcdbackend

import (
	"context"
	"errors"
	"fmt"
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
	joined, err := s.join(ctx, req)
	if err != nil {
		if _, ok := errors.AsType[*driver.TakenError](err); !ok {
			err = wrapPending(fmt.Sprintf("etcd: join %q", req.Line), err)
		}
	}
	return joined, err
}

// wrapPending adds context to an error and leaves a *driver.PendingError one.
func wrapPending(what string, err error) error {
	if p, ok := errors.AsType[*driver.PendingError](err); ok {
		return &driver.PendingError{Err: fmt.Errorf("%s: %w", what, p.Err), Settle: p.Settle}
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *leased) join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	// The session's end ends the request too.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(driver.ErrSessionOver) })() //nolint:contextcheck // the session's end

	select {
	case s.flight <- struct{}{}:
		defer func() { <-s.flight }()
	case <-ctx.Done():
	}
	switch {
	case s.ended():
		return driver.Joined{}, driver.ErrSessionOver
	case ctx.Err() != nil:
		return driver.Joined{}, context.Cause(ctx)
	}
	if req.IfEmpty && s.deep.has(req.Line) {
		if err := s.peek(ctx, req.Line); err != nil {
			return driver.Joined{}, err
		}
	}
	return s.newJoin(req).run(ctx)
}

// join is one request to join, over all its attempts.
type join struct {
	s      *leased
	req    driver.JoinRequest
	prefix string
	value  []byte
	slot   int
	key    string
	fence  string // of the newest attempt

	settling sync.Mutex
	settled  bool
}

func (s *leased) newJoin(req driver.JoinRequest) *join {
	j := &join{s: s, req: req, prefix: s.b.lay.prefix(req.Line), value: req.Meta.Encode()}
	j.takeSlot()
	j.newFence()
	return j
}

func (j *join) takeSlot() {
	j.slot = j.s.lines.take(j.req.Line)
	j.key = j.prefix + entryKey{lease: j.s.id, slot: j.slot, mode: j.req.Mode, weight: j.req.Weight}.String()
}

// free gives the slot back. It is called only when it is certain that no entry
// is or will be in it.
func (j *join) free() { j.s.lines.release(j.req.Line, j.slot, 0) }

// newFence begins an attempt that the fences of earlier ones do not stop.
func (j *join) newFence() { j.fence = j.s.b.lay.fence(j.s.id, j.s.attempts.Add(1)) }

// run makes attempts until one is answered.
func (j *join) run(ctx context.Context) (driver.Joined, error) {
	tokens := 0
	for n := 0; ; n++ {
		resp, err := j.send(ctx, n)
		if err == nil {
			if resp.Succeeded {
				return j.joined(resp), nil
			}
			if err := j.declined(resp); err != nil {
				j.free()
				return driver.Joined{}, err
			}
			continue
		}
		switch out := classify(err); out {
		case sessionOver:
			j.s.lost(err)
			j.free()
			return driver.Joined{}, translate(err)
		case unknown, full:
			joined, again, rerr := j.resolve(ctx, out == full, err)
			if !again {
				return joined, rerr
			}
		case badToken:
			if tokens++; tokens > maxTokens {
				j.free()
				return driver.Joined{}, translate(err)
			}
		case denied, refused:
			j.free()
			return driver.Joined{}, translate(err)
		case notDone:
		}
		if err := j.s.b.pause(ctx, n, err); err != nil {
			j.free()
			return driver.Joined{}, err
		}
	}
}

// send makes one attempt.
func (j *join) send(ctx context.Context, n int) (resp *pb.TxnResponse, err error) {
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{createdAt(j.key, 0), {
			Key: []byte(j.fence), Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Version{},
		}},
		Success: []*pb.RequestOp{
			// The order matters: the own entry is not to be counted.
			opGet(&pb.RangeRequest{Key: []byte(j.prefix), RangeEnd: prefixEnd(j.prefix), Limit: 1}),
			opPut(j.key, j.value, j.s.id),
		},
	}
	if j.req.IfEmpty {
		empty := createdAt(j.prefix, 0)
		empty.RangeEnd = prefixEnd(j.prefix)
		r.Compare = append(r.Compare, empty)
		r.Failure = []*pb.RequestOp{opGet(firstOf(j.prefix)), opGet(keyOnly(j.key)), opGet(keyOnly(j.fence))}
	}
	err = j.s.b.once(ctx, j.s.pace.timeout(n), func(ctx context.Context) (err error) {
		resp, err = j.s.b.kv.txn(ctx, r)
		return err
	})
	return resp, err
}

// joined reads the answer to an attempt that was carried out.
func (j *join) joined(resp *pb.TxnResponse) driver.Joined {
	ahead := resp.Responses[0].GetResponseRange()
	rev := resp.Header.Revision
	joined := driver.Joined{Entry: j.entry(rev), Rev: rev, Ahead: int(ahead.Count)}
	if ahead.Count == 1 && len(ahead.Kvs) == 1 {
		joined.Known = j.s.b.lay.entries(j.req.Line, ahead.Kvs, true)
	}
	j.s.lines.fill(j.req.Line, j.slot, joined.Entry.Place, ahead.Count+1)
	return joined
}

// entry is the own entry, made at a revision.
func (j *join) entry(place int64) driver.Entry {
	return driver.Entry{
		Ref:     driver.Ref{Line: j.req.Line, Key: j.key, Place: place},
		Mode:    j.req.Mode,
		Weight:  j.req.Weight,
		Token:   place,
		Session: j.s.ID(),
		Meta:    j.req.Meta,
	}
}

// declined reads the answer to an attempt whose conditions did not hold. Nil
// means that another attempt may go better.
//
// Of an attempt without IfEmpty it can only be that the key is there: nobody
// writes the fence of an attempt that is waited for. Asking for the reason in
// the transaction would make every one longer.
func (j *join) declined(resp *pb.TxnResponse) error {
	if j.req.IfEmpty {
		front, key, fence := resp.Responses[0].GetResponseRange(), resp.Responses[1].GetResponseRange(), resp.Responses[2].GetResponseRange()
		if key.Count == 0 && fence.Count == 0 {
			return j.s.taken(j.req.Line, front)
		}
	}
	// Somebody put a key with our name there. It counts in the line like any
	// other, and its slot is not used again.
	j.s.cfg.Logger.Warn("etcd: a key of this session exists that it did not make", "key", j.key)
	j.takeSlot()
	j.newFence()
	return nil
}

// resolve finds out what became of an attempt, and makes sure that it stays
// so. It says again if the attempt was not and will not be done.
//
// full tells that etcd answered NOSPACE: then it may have been done, cannot be
// later, and nothing more can be written.
func (j *join) resolve(ctx context.Context, full bool, cause error) (joined driver.Joined, again bool, err error) {
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
	joined, err = j.adopt(ctx, kv)
	return joined, false, err
}

// adopt takes over an entry that was made by an attempt without an answer. Who
// is ahead is looked up; they can only have become fewer since.
func (j *join) adopt(ctx context.Context, kv *mvccpb.KeyValue) (driver.Joined, error) {
	place := kv.CreateRevision
	view, err := j.s.look(ctx, driver.LookRequest{Line: j.req.Line, Upto: place, NotBefore: place}, true)
	if err != nil {
		return driver.Joined{}, j.pending(err)
	}
	ahead := view.Entries
	if n := len(ahead); n > 0 && ahead[n-1].Place == place {
		ahead = ahead[:n-1]
	}
	j.s.lines.fill(j.req.Line, j.slot, place, int64(len(ahead)+1))
	return driver.Joined{Entry: j.entry(place), Rev: place, Ahead: len(ahead), Known: ahead}, nil
}
