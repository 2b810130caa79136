package etcdbackend

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// maxValue is the most bytes of a value: etcd takes requests of 1.5 MiB unless
// it is told otherwise.
const maxValue = 1 << 20

// Share implements driver.Session.
func (s *leased) Share(ctx context.Context, ref driver.Ref) (driver.Turned, error) {
	k, _ := s.b.lay.parse(ref)
	rev, err := s.remark(ctx, ref, k.valued || k.mode == driver.Weighted, func(m *mark) { m.Shared = true })
	if err != nil {
		return driver.Turned{}, fmt.Errorf("etcd: share %q: %w", ref.Line, err)
	}
	return driver.Turned{Ref: ref, Rev: rev}, nil
}

// Admit implements driver.Session.
func (s *leased) Admit(ctx context.Context, ref driver.Ref) error {
	_, err := s.remark(ctx, ref, s.b.lay.valued(ref), func(m *mark) { m.Admitted = true })
	if err != nil {
		return fmt.Errorf("etcd: admit in %q: %w", ref.Line, err)
	}
	return nil
}

// remark writes what has become of an entry into it, and returns when. An entry
// with a value has no room for it, and a semaphore's has only one meaning, see
// unclear.
func (s *leased) remark(ctx context.Context, ref driver.Ref, cannot bool, f func(*mark)) (int64, error) {
	if cannot {
		return 0, fmt.Errorf("%w: the entry has another kind", driver.ErrRefused)
	}
	known := s.lines.mine(s.b.lay, ref)
	m := known.mark
	f(&m)
	if len(known.meta) == 0 {
		known.meta = driver.Meta{}.Encode() // it has gone, and will be told so
	}
	written, err := s.rewrite(ctx, ref, m.write(known.meta))
	if err == nil {
		s.lines.note(s.b.lay, ref, func(x *mine) { x.written, x.mark = written, m })
	}
	return written, err
}

// Write implements driver.Session.
func (s *leased) Write(ctx context.Context, ref driver.Ref, value []byte) error {
	err := fmt.Errorf("%w: the entry was not made with a value", driver.ErrRefused)
	switch {
	case !s.b.lay.valued(ref):
	case len(value) > maxValue:
		err = tooLong(value)
	default:
		var written int64
		if written, err = s.rewrite(ctx, ref, value); err == nil {
			s.lines.note(s.b.lay, ref, func(x *mine) { x.written = written })
			return nil
		}
	}
	return fmt.Errorf("etcd: write %q: %w", ref.Line, err)
}

func tooLong(value []byte) error {
	return fmt.Errorf("%w: a value of %d bytes, more than %d", driver.ErrRefused, len(value), maxValue)
}

// rewrite puts another value in the place of an own entry's, and returns the
// revision of that. It never makes an entry: one that is gone stays gone. And it
// writes only over what is known to be there, or a request that was given up
// would undo a later one when it comes.
func (s *leased) rewrite(ctx context.Context, ref driver.Ref, value []byte) (int64, error) {
	ctx, done := s.bound(ctx)
	defer done()
	written := s.lines.mine(s.b.lay, ref).written
	if written == 0 {
		written = ref.Place
	}
	for {
		resp, err := s.askFor(ctx, ref, &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(ref.Key, ref.Place), writtenAt(ref.Key, written)},
			Success: []*pb.RequestOp{opPut(ref.Key, value, s.id)},
			Failure: []*pb.RequestOp{opGet(keyOnly(ref.Key))},
		})
		switch {
		case err != nil:
			return 0, err
		case resp.Succeeded:
			return resp.Header.Revision, nil
		}
		kv := first(resp.Responses[0].GetResponseRange().Kvs)
		if kv == nil || kv.CreateRevision != ref.Place {
			return 0, driver.ErrGone
		}
		// Somebody wrote there: an attempt of ours, or an operator. Once more.
		written = kv.ModRevision
	}
}

// bound ends a request with the session.
func (s *leased) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(driver.ErrSessionOver) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// askFor is ask for an entry of this session.
func (s *leased) askFor(ctx context.Context, ref driver.Ref, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if !s.b.lay.isOwn(ref, s.id) {
		return nil, fmt.Errorf("%w: it belongs to another session", driver.ErrGone)
	}
	return s.ask(ctx, r)
}

// ask sends a transaction that may be carried out more than once.
func (s *leased) ask(ctx context.Context, r *pb.TxnRequest) (resp *pb.TxnResponse, err error) {
	switch {
	case s.over.Load(): // and its entries with it
		return nil, fmt.Errorf("%w: %w", driver.ErrSessionOver, driver.ErrGone)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	err = s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
		resp, err = s.b.kv.txn(ctx, r)
		if err != nil && classify(err) == sessionOver {
			s.lost(err)
		}
		return err
	})
	return resp, err
}
