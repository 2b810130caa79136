package drivertest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// asked is the lock whose asks defects are about.
const asked = "orders/settle"

// Evict has a place for a defect.
func (b *badBackend) Evict(ctx context.Context, e driver.Entry) error {
	if b.evict == nil {
		return b.Backend.Evict(ctx, e)
	}
	return b.evict(ctx, e)
}

// evictByKey deletes whoever has the key by now.
func evictByKey(b *badBackend) {
	b.evict = func(ctx context.Context, e driver.Entry) error {
		line := b.st.Entries(e.Line)
		if i := slices.IndexFunc(line, func(o driver.Entry) bool { return o.Key == e.Key }); i >= 0 {
			e = line[i]
		}
		return b.Backend.Evict(ctx, e)
	}
}

func evictNil(b *badBackend) {
	b.evict = func(ctx context.Context, e driver.Entry) error {
		if err := b.Backend.Evict(ctx, e); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		return nil
	}
}

// evictSession ends the session of the entry.
func evictSession(b *badBackend) {
	b.evict = func(ctx context.Context, e driver.Entry) error {
		err := b.Backend.Evict(ctx, e)
		if err == nil {
			b.st.Expire(e.Session)
		}
		return err
	}
}

// evictTwice takes the deletion by an attempt that was not answered for gone.
func evictTwice(b *badBackend) {
	b.evict = func(ctx context.Context, e driver.Entry) error {
		before := b.c.Sent(fault.Leave)
		err := b.Backend.Evict(ctx, e)
		if err == nil && b.c.Sent(fault.Leave) > before+1 {
			err = driver.ErrGone
		}
		return err
	}
}

// evictClean gives back in the name of the evicted.
func evictClean(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) { req.Ledger = false })
	b.enter = func(context.Context, driver.Session, driver.Ref) (driver.Past, error) { return driver.PastClean, nil }
}

// evictOurs does not touch what others have made.
func evictOurs(b *badBackend) {
	b.evict = func(ctx context.Context, e driver.Entry) error {
		if e.Foreign {
			return driver.ErrDenied
		}
		return b.Backend.Evict(ctx, e)
	}
}

// askInLine has who asks stand in the lock's line.
func askInLine(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) {
		if name, ok := driver.AskedLine(req.Line); ok {
			req.Line = name
		}
	})
}

// asksNamed shows the lines of asks among the names.
func asksNamed(b *badBackend) {
	b.names = func(all []string) []string {
		if len(b.st.Entries(driver.AskLine(asked))) > 0 {
			all = append(all, driver.AskLine(asked))
		}
		return all
	}
}

// asksTogether has one line of asks for all locks.
func asksTogether(b *badBackend) {
	asking(b, func(req *driver.JoinRequest) {
		if _, ok := driver.AskedLine(req.Line); ok {
			req.Line = driver.AskLine(asked)
		}
	})
}

// askTells tells who watches the line of what happens among the asks.
func askTells(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		stop := s.Watch(req, f)
		if req.Of != driver.OfLine {
			return stop
		}
		req.Ref.Line = driver.AskLine(req.Ref.Line)
		also := s.Watch(req, func(ev driver.Event) {
			if ev.Kind == driver.Changed {
				f(ev)
			}
		})
		return func() {
			stop()
			also()
		}
	}
}

// askStays has an ask that is withdrawn stay.
func askStays(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		if _, ok := driver.AskedLine(req.Ref.Line); ok {
			return driver.Left{}, nil
		}
		return s.Leave(ctx, req)
	}
}
