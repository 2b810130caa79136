package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// joined plants a defect into the answer of a join.
func joined(b *badBackend, change func(j *driver.Joined)) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		j, err := s.Join(ctx, req)
		if err == nil {
			change(&j)
		}
		return j, err
	}
}

func aheadTooFew(b *badBackend) {
	joined(b, func(j *driver.Joined) { j.Ahead = max(0, j.Ahead-1) })
}

func knowsWrong(b *badBackend) {
	joined(b, func(j *driver.Joined) { j.Known = []driver.Entry{j.Entry} })
}

func nearWrong(b *badBackend) {
	joined(b, func(j *driver.Joined) { j.Near = true })
}

func tokenStays(b *badBackend) {
	joined(b, func(j *driver.Joined) { j.Entry.Token = 7 })
}

func looksFirst(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		if _, err := s.Look(ctx, driver.LookRequest{Line: req.Line, Upto: 1 << 62}); err != nil {
			return driver.Joined{}, err
		}
		return s.Join(ctx, req)
	}
}

func oneEntry(b *badBackend) {
	var mu sync.Mutex
	have := make(map[string]driver.Joined)
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		mu.Lock()
		defer mu.Unlock()
		if j, ok := have[s.ID()+req.Line]; ok {
			return j, nil
		}
		j, err := s.Join(ctx, req)
		have[s.ID()+req.Line] = j
		return j, err
	}
}

func ifEmptyWrites(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		ifEmpty := req.IfEmpty
		req.IfEmpty = false
		j, err := s.Join(ctx, req)
		if err == nil && ifEmpty && j.Ahead > 0 {
			return driver.Joined{}, &driver.TakenError{Count: j.Ahead}
		}
		return j, err
	}
}

func pendingHidden(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		j, err := s.Join(ctx, req)
		var p *driver.PendingError
		if errors.As(err, &p) {
			err = p.Err
		}
		return j, err
	}
}

// settling replaces what a pending join is settled with.
func settling(b *badBackend, settle func(ctx context.Context, s driver.Session, line string) error) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		j, err := s.Join(ctx, req)
		var p *driver.PendingError
		if errors.As(err, &p) {
			p.Settle = func(ctx context.Context) error { return settle(ctx, s, req.Line) }
		}
		return j, err
	}
}

func settleLies(b *badBackend) {
	settling(b, func(context.Context, driver.Session, string) error { return nil })
}

// settleUnfenced deletes what it finds, and takes what it does not find for
// something that will not come.
func settleUnfenced(b *badBackend) {
	settling(b, func(_ context.Context, s driver.Session, line string) error {
		for _, e := range b.st.Entries(line) {
			if e.Session == s.ID() {
				b.st.Delete(line, e.Key)
			}
		}
		return nil
	})
}

// retryDoubles is a retry that does not know its first request again.
func retryDoubles(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		before := b.c.Sent(fault.Join)
		j, err := s.Join(ctx, req)
		if err == nil && b.c.Sent(fault.Join) > before+1 {
			return s.Join(ctx, req)
		}
		return j, err
	}
}

// takenByItself is a retry that finds the line taken by its first request.
func takenByItself(b *badBackend) {
	b.join = func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error) {
		before := b.c.Sent(fault.Join)
		j, err := s.Join(ctx, req)
		if err == nil && req.IfEmpty && b.c.Sent(fault.Join) > before+1 {
			return driver.Joined{}, &driver.TakenError{First: j.Entry, Count: 1}
		}
		return j, err
	}
}

func leaveNil(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		left, err := s.Leave(ctx, req)
		if errors.Is(err, driver.ErrGone) {
			err = nil
		}
		return left, err
	}
}

func leaveByKey(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		line := b.st.Entries(req.Ref.Line)
		if i := slices.IndexFunc(line, func(e driver.Entry) bool { return e.Key == req.Ref.Key }); i >= 0 {
			req.Ref = line[i].Ref
		}
		return s.Leave(ctx, req)
	}
}

func probeLies(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		left, err := s.Leave(ctx, req)
		left.Probed, left.Alive = true, true
		return left, err
	}
}

// leaveForgets does not remember what it has sent without an answer.
func leaveForgets(b *badBackend) {
	unknown := make(map[driver.Ref]bool)
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		left, err := s.Leave(ctx, req)
		if err == nil && unknown[req.Ref] {
			return driver.Left{}, driver.ErrGone
		}
		unknown[req.Ref] = err != nil
		return left, err
	}
}
