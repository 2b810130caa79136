package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Leave implements driver.Session. It works after the end of the session too.
func (s *leased) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	d := s.departures([]driver.LeaveRequest{req})
	resp, err := d.send(ctx, alone)
	if err != nil {
		return driver.Left{}, fmt.Errorf("etcd: leave %q: %w", req.Ref.Line, err)
	}
	left := d.left(0, resp, resp.Header.Revision)
	if left.Gone {
		return driver.Left{}, fmt.Errorf("etcd: leave %q: %w", req.Ref.Line, driver.ErrGone)
	}
	return left, nil
}

// LeaveAll implements driver.Session. Each entry has a transaction of its own
// in the one that is sent, so that one that is gone does not keep the others.
func (s *leased) LeaveAll(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) > maxAll {
		return nil, fmt.Errorf("etcd: leave %d queues: %w: at most %d", len(reqs), driver.ErrRefused, maxAll)
	}
	d := s.departures(reqs)
	resp, err := d.send(ctx, together)
	if err != nil {
		return nil, fmt.Errorf("etcd: leave %d queues: %w", len(reqs), err)
	}
	lefts := make([]driver.Left, len(reqs))
	for i := range reqs {
		lefts[i] = d.left(i, resp.Responses[i].GetResponseTxn(), resp.Header.Revision)
	}
	return lefts, nil
}

// alone is the transaction of the only request.
func alone(ops []*pb.TxnRequest) *pb.TxnRequest { return ops[0] }

// together is one transaction with those of all requests.
func together(ops []*pb.TxnRequest) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for _, t := range ops {
		r.Success = append(r.Success, opTxn(t))
	}
	return r
}

// departures are requests to leave that are sent together.
type departures struct {
	s      *leased
	reqs   []driver.LeaveRequest
	ops    []*pb.TxnRequest
	unsure []bool // an earlier attempt was not answered
	bare   bool   // ops only delete the entries
}

func (s *leased) departures(reqs []driver.LeaveRequest) *departures {
	d := &departures{s: s, reqs: reqs}
	for _, req := range reqs {
		d.unsure = append(d.unsure, s.lines.isUnsure(req.Ref))
		d.ops = append(d.ops, s.departure(req))
		s.lines.note(s.b.lay, req.Ref, func(m *mine) { m.leaving = true })
	}
	return d
}

// departure deletes an entry and what hangs on it.
func (s *leased) departure(req driver.LeaveRequest) *pb.TxnRequest {
	ref := req.Ref
	// The key may have been used again, so it is the place that is left.
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{createdAt(ref.Key, ref.Place)},
		Success: []*pb.RequestOp{opDelete(ref.Key)},
	}
	if probes(req) {
		r.Success = append(r.Success, opGet(keyOnly(req.Probe.Key)))
	}
	if s.b.lay.valued(ref) {
		r.Success = append(r.Success, opDelete(s.b.lay.meta(ref)))
	}
	r.Success = append(r.Success, s.unclaim(ref)...)
	r.Success = append(r.Success, s.ungrant(ref)...)
	r.Failure = s.leftovers(ref)
	if req.Clean {
		r.Success = append(r.Success, strike(s.b.lay.ledger(ref.Line), ref))
	}
	return r
}

// leftovers deletes what hung on an entry that somebody else deleted.
func (s *leased) leftovers(ref driver.Ref) []*pb.RequestOp {
	ops := append(s.unclaim(ref), s.ungrant(ref)...)
	if s.b.lay.valued(ref) {
		ops = append(ops, opTxn(&pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(ref.Key, 0)}, // or it is another's by now
			Success: []*pb.RequestOp{opDelete(s.b.lay.meta(ref))},
		}))
	}
	return ops
}

// gone takes in what a watch tells: an own entry is no more. If that is not by a
// Leave, what hung on it is deleted in the background. If that does not succeed
// it goes with the lease.
func (s *leased) gone(ref driver.Ref) {
	m := s.lines.mine(s.b.lay, ref)
	left := m.leaving || m.place == 0 // or has been left, and is forgotten
	if rest := s.leftovers(ref); len(rest) > 0 && !left && !s.ended() {
		s.wg.Go(func() { // ends with the answer or the session
			if _, err := s.ask(s.ctx, &pb.TxnRequest{Success: rest}); err != nil && !s.ended() {
				s.cfg.Logger.Warn("etcd: the records of a deleted entry are left", "key", ref.Key, "err", err)
			}
		})
	}
	s.lines.gone(s.b.lay, ref)
}

// probes says that a request asks for the life of another entry.
func probes(req driver.LeaveRequest) bool {
	return req.Probe.Key != "" && req.Probe.Key != req.Ref.Key
}

// send sends the requests until they are answered, and remembers if they were
// not.
//
// Only the deletes of the entries are needed. etcd refuses a whole transaction for
// one key, and does not say which, so one that it refuses is sent again without all
// the rest.
func (d *departures) send(ctx context.Context, pack func([]*pb.TxnRequest) *pb.TxnRequest) (*pb.TxnResponse, error) {
	s := d.s
	select {
	case s.leaving <- struct{}{}:
		defer func() { <-s.leaving }()
	case <-ctx.Done(): // nothing was sent, so nobody is less sure than before
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	resp, err := d.ask(ctx, pack(d.ops))
	if (errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrRefused)) && d.strip() {
		why := err
		if resp, err = d.ask(ctx, pack(d.ops)); err == nil {
			d.logKept(ctx, why)
		}
	}
	for i, req := range d.reqs {
		s.lines.setUnsure(req.Ref, err != nil && d.unsure[i])
		if err == nil {
			s.lines.gone(s.b.lay, req.Ref)
		}
	}
	return resp, err
}

// ask sends one transaction until it is answered.
func (d *departures) ask(ctx context.Context, r *pb.TxnRequest) (resp *pb.TxnResponse, err error) {
	err = d.s.b.ask(ctx, d.s.pace, func(ctx context.Context) (err error) {
		resp, err = d.s.b.kv.txn(ctx, r)
		if err != nil && classify(err) == unknown {
			for i := range d.unsure {
				d.unsure[i] = true
			}
		}
		return err
	})
	return resp, err
}

// strip leaves nothing in the transactions but the guarded deletes of the entries.
// It reports whether there was more in them.
func (d *departures) strip() (more bool) {
	for i, t := range d.ops {
		more = more || len(t.Success) > 1 || len(t.Failure) > 0
		d.ops[i] = &pb.TxnRequest{Compare: t.Compare, Success: t.Success[:1]}
	}
	d.bare = true
	return more
}

// logKept logs what stays after a release without the rest. A name that stays in a
// ledger makes the next hold believe that this one died. All else is on the lease,
// and no reader takes it for that of another entry.
func (d *departures) logKept(ctx context.Context, why error) {
	level := slog.LevelDebug
	names := make([]string, len(d.reqs))
	for i, req := range d.reqs {
		names[i] = req.Ref.Line
		if req.Clean {
			level = slog.LevelWarn
		}
	}
	d.s.cfg.Logger.Log(ctx, level, "etcd: released without deleting what belongs to the entries", "names", names, "err", why)
}

// left reads the answer to one of the requests.
func (d *departures) left(i int, resp *pb.TxnResponse, rev int64) driver.Left {
	if !resp.Succeeded {
		return driver.Left{Gone: !d.unsure[i]}
	}
	left := driver.Left{Rev: rev}
	if req := d.reqs[i]; probes(req) && !d.bare {
		kv := first(resp.Responses[1].GetResponseRange().Kvs)
		left.Probed = true
		left.Alive = kv != nil && kv.CreateRevision == req.Probe.Place
	}
	return left
}
