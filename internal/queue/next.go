package queue

import (
	"context"
	"iter"

	next "github.com/fairlock/fairlock/next/driver"
	nextqueue "github.com/fairlock/fairlock/next/queue"
	"github.com/fairlock/fairlock/next/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// What recipes call goes on to the engine of the contract that the Session's backend is
// of.

// Acquire acquires a hold: see package next/queue.
func Acquire(ctx context.Context, s *session.Session, rs ...Request) (*session.Hold, error) {
	if !Core().Of(s).Next() {
		return acquireOld(ctx, s, rs...)
	}
	all := make([]nextqueue.Request, len(rs))
	for i, r := range rs {
		all[i] = r.next()
	}
	return nextqueue.Acquire(ctx, s, all...)
}

// next returns the request as the other engine takes it.
func (r Request) next() nextqueue.Request {
	family, by := next.FamilyMutex, rule.Mutex()
	switch r.Kin {
	case driver.KinReadWrite:
		family, by = next.FamilyReadWrite, rule.ReadWrite()
	case driver.KinLatch:
		family = next.FamilyLatch
	case driver.KinMutex:
	}
	if r.Mode == driver.Weighted {
		by = rule.Semaphore()
	}
	return nextqueue.Request{
		Name: r.Name, Kind: r.Kind, Mode: r.Mode, Weight: r.Weight, Family: family, Value: r.Value, Limit: r.Limit, Follow: r.Follow,
		Rule: by, Slots: r.Slots, Ledger: r.Ledger, Delay: r.Delay, MinHold: r.MinHold, Try: r.Try, Err: r.Err,
	}
}

// Head yields the first entry of a queue, and whenever that changes.
func Head(ctx context.Context, s *session.Session, name string) iter.Seq2[next.Entry, error] {
	if Core().Of(s).Next() {
		return nextqueue.Head(ctx, s, name)
	}
	return headOld(ctx, s, name)
}

// SetLimit gives a queue another limit.
func SetLimit(ctx context.Context, s *session.Session, name string, limit int64) error {
	if Core().Of(s).Next() {
		return nextqueue.SetLimit(ctx, s, name, limit)
	}
	return setLimitOld(ctx, s, name, limit)
}

// Done returns the record of finished work of a queue, nil if there is none.
func Done(ctx context.Context, s *session.Session, name string) ([]byte, error) {
	if Core().Of(s).Next() {
		return nextqueue.Done(ctx, s, name)
	}
	t, err := termOf(ctx, s)
	if err != nil {
		return nil, err
	}
	return t.Driver().Done(ctx, name) //nolint:wrapcheck // the backend's own error
}

// MarkDone replaces that record by what update makes of it, if the hold's entry is there
// at that moment.
func MarkDone(ctx context.Context, s *session.Session, h *session.Hold, update func([]byte) []byte) error {
	if Core().Of(s).Next() {
		return nextqueue.MarkDone(ctx, s, h, update)
	}
	t, err := termOf(ctx, s)
	if err != nil {
		return err
	}
	return t.Driver().MarkDone(ctx, Core().Inner(h).Refs()[0], update) //nolint:wrapcheck // the backend's own error
}
