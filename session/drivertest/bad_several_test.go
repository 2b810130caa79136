package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// several are the places for defects in what lines that admit several need, and
// joins of several lines.
type several struct {
	joinAll  func(ctx context.Context, s driver.Session, reqs []driver.JoinRequest) ([]driver.Joined, error)
	leaveAll func(ctx context.Context, s driver.Session, reqs []driver.LeaveRequest) ([]driver.Left, error)
	share    func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Turned, error)
	admit    func(ctx context.Context, s driver.Session, ref driver.Ref) error
	record   func(ctx context.Context, s driver.Session, ref driver.Ref, granted time.Time) error
	claim    func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Number, error)
	write    func(ctx context.Context, s driver.Session, ref driver.Ref, value []byte) error
	enter    func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Past, error)
	setLimit func(ctx context.Context, s driver.Session, line string, limit int64) error
}

// badSeveral is a badSession with those places.
type badSeveral struct{ *badSession }

func (s badSeveral) JoinAll(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	if s.b.joinAll == nil {
		return s.Session.JoinAll(ctx, reqs)
	}
	return s.b.joinAll(ctx, s.Session, reqs)
}

func (s badSeveral) LeaveAll(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	if s.b.leaveAll == nil {
		return s.Session.LeaveAll(ctx, reqs)
	}
	return s.b.leaveAll(ctx, s.Session, reqs)
}

func (s badSeveral) Share(ctx context.Context, ref driver.Ref) (driver.Turned, error) {
	if s.b.share == nil {
		return s.Session.Share(ctx, ref)
	}
	return s.b.share(ctx, s.Session, ref)
}

func (s badSeveral) Admit(ctx context.Context, ref driver.Ref) error {
	if s.b.admit == nil {
		return s.Session.Admit(ctx, ref)
	}
	return s.b.admit(ctx, s.Session, ref)
}

func (s badSeveral) Record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	if s.b.record == nil {
		return s.Session.Record(ctx, ref, granted)
	}
	return s.b.record(ctx, s.Session, ref, granted)
}

func (s badSeveral) Claim(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	if s.b.claim == nil {
		return s.Session.Claim(ctx, ref)
	}
	return s.b.claim(ctx, s.Session, ref)
}

func (s badSeveral) Write(ctx context.Context, ref driver.Ref, value []byte) error {
	if s.b.write == nil {
		return s.Session.Write(ctx, ref, value)
	}
	return s.b.write(ctx, s.Session, ref, value)
}

func (s badSeveral) Enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	if s.b.enter == nil {
		return s.Session.Enter(ctx, ref)
	}
	return s.b.enter(ctx, s.Session, ref)
}

func (s badSeveral) SetLimit(ctx context.Context, line string, limit int64) error {
	if s.b.setLimit == nil {
		return s.Session.SetLimit(ctx, line, limit)
	}
	return s.b.setLimit(ctx, s.Session, line, limit)
}

// joinsOneByOne takes several joins for a join of several.
func joinsOneByOne(b *badBackend) {
	b.joinAll = func(ctx context.Context, s driver.Session, reqs []driver.JoinRequest) ([]driver.Joined, error) {
		all := make([]driver.Joined, 0, len(reqs))
		for _, req := range reqs {
			j, err := s.Join(ctx, req)
			if err != nil {
				return nil, err
			}
			all = append(all, j)
		}
		return all, nil
	}
}

// joinsMore makes more transactions where one does not hold all.
func joinsMore(b *badBackend) {
	b.joinAll = func(ctx context.Context, s driver.Session, reqs []driver.JoinRequest) ([]driver.Joined, error) {
		var all []driver.Joined
		for part := range slices.Chunk(reqs, b.Profile().MaxAll) {
			joined, err := s.JoinAll(ctx, part)
			if err != nil {
				return nil, err
			}
			all = append(all, joined...)
		}
		return all, nil
	}
}

// severalSettleLies settles nothing.
func severalSettleLies(b *badBackend) {
	b.joinAll = func(ctx context.Context, s driver.Session, reqs []driver.JoinRequest) ([]driver.Joined, error) {
		all, err := s.JoinAll(ctx, reqs)
		var p *driver.PendingError
		if errors.As(err, &p) {
			p.Settle = func(context.Context) error { return nil }
		}
		return all, err
	}
}

// retryFindsGone marks what the first request of a leave has deleted.
func retryFindsGone(b *badBackend) {
	b.leaveAll = func(ctx context.Context, s driver.Session, reqs []driver.LeaveRequest) ([]driver.Left, error) {
		before := b.c.Sent(fault.Leave)
		left, err := s.LeaveAll(ctx, reqs)
		for i := range left {
			left[i].Gone = left[i].Gone || b.c.Sent(fault.Leave) > before+1
		}
		return left, err
	}
}

func leavesUnmarked(b *badBackend) {
	b.leaveAll = func(ctx context.Context, s driver.Session, reqs []driver.LeaveRequest) ([]driver.Left, error) {
		left, err := s.LeaveAll(ctx, reqs)
		for i := range left {
			left[i].Gone = false
		}
		return left, err
	}
}

// changeGoneNil takes it for done that there is nothing to do it to.
func changeGoneNil(b *badBackend) {
	b.share = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Turned, error) {
		after, err := s.Share(ctx, ref)
		if errors.Is(err, driver.ErrGone) {
			return driver.Turned{Ref: ref}, nil
		}
		return after, err
	}
}

// shareOnce finds no exclusive entry the second time.
func shareOnce(b *badBackend) {
	b.share = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Turned, error) {
		for _, e := range b.st.Entries(ref.Line) {
			if e.Ref == ref && e.Mode == driver.Shared {
				return driver.Turned{}, driver.ErrGone
			}
		}
		return s.Share(ctx, ref)
	}
}

// shareJoins leaves the line and joins it anew.
func shareJoins(b *badBackend) {
	b.share = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Turned, error) {
		if _, err := s.Leave(ctx, driver.LeaveRequest{Ref: ref}); err != nil {
			return driver.Turned{}, err
		}
		j, err := s.Join(ctx, driver.JoinRequest{Line: ref.Line, Mode: driver.Shared})
		return driver.Turned{Ref: j.Entry.Ref, Rev: j.Rev}, err
	}
}

// shareEarly tells of a moment from before the share.
func shareEarly(b *badBackend) {
	b.share = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Turned, error) {
		after, err := s.Share(ctx, ref)
		after.Rev--
		return after, err
	}
}

// shareBlinks has looks miss an entry while it is shared.
func shareBlinks(b *badBackend) {
	blinking := b.blinking
	b.share = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Turned, error) {
		blinking.Store(word{b.st, ref}, true)
		defer blinking.Delete(word{b.st, ref})
		time.Sleep(10 * time.Millisecond)
		return s.Share(ctx, ref)
	}
	looked(b, func(_ driver.LookRequest, v *driver.View) {
		v.Entries = slices.DeleteFunc(v.Entries, func(e driver.Entry) bool {
			_, ok := blinking.Load(word{b.st, e.Ref})
			return ok
		})
	})
}

func shareUntold(b *badBackend) {
	told(b, func(driver.WatchRequest) func(driver.Event) bool {
		return func(ev driver.Event) bool { return ev.Kind != driver.Changed }
	})
}

func recordIgnored(b *badBackend) {
	b.record = func(context.Context, driver.Session, driver.Ref, time.Time) error { return nil }
}

// recordStays keeps the record by the key, for the entry that gets the key next.
func recordStays(b *badBackend) {
	keys := make(map[string]time.Time)
	var mu sync.Mutex
	b.list = func(_ string, all []driver.Entry) []driver.Entry {
		mu.Lock()
		defer mu.Unlock()
		for i, e := range all {
			all[i].Granted = keys[e.Key]
		}
		return all
	}
	b.record = func(ctx context.Context, s driver.Session, ref driver.Ref, granted time.Time) error {
		mu.Lock()
		defer mu.Unlock()
		keys[ref.Key] = granted
		return s.Record(ctx, ref, granted)
	}
}

func admitIgnored(b *badBackend) {
	b.admit = func(context.Context, driver.Session, driver.Ref) error { return nil }
}

// admittedStays keeps the note by the key, for whoever gets that next.
func admittedStays(b *badBackend) {
	keys := make(map[string]bool)
	var mu sync.Mutex
	b.list = func(_ string, all []driver.Entry) []driver.Entry {
		mu.Lock()
		defer mu.Unlock()
		for i, e := range all {
			all[i].Admitted = e.Admitted || keys[e.Key]
		}
		return all
	}
	b.admit = func(ctx context.Context, s driver.Session, ref driver.Ref) error {
		mu.Lock()
		defer mu.Unlock()
		keys[ref.Key] = true
		return s.Admit(ctx, ref)
	}
}

// asAspect watches another aspect than was asked for.
func asAspect(asked, instead driver.Aspect) func(b *badBackend) {
	return func(b *badBackend) {
		b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
			if req.Of == asked {
				req.Of = instead
			}
			return s.Watch(req, f)
		}
	}
}

// claimNext never gives a number twice.
func claimNext(b *badBackend) {
	next := 0
	b.claim = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Number, error) {
		n, err := s.Claim(ctx, ref)
		next++
		n.N = next - 1
		return n, err
	}
}

// claimWithPlace takes the place in line for the number's token.
func claimWithPlace(b *badBackend) {
	b.claim = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Number, error) {
		n, err := s.Claim(ctx, ref)
		n.Token = ref.Place
		return n, err
	}
}

// claimPlace takes the place in line for the number.
func claimPlace(b *badBackend) {
	b.claim = func(ctx context.Context, s driver.Session, ref driver.Ref) (driver.Number, error) {
		n, err := s.Claim(ctx, ref)
		n.N = slices.IndexFunc(b.st.Entries(ref.Line), func(e driver.Entry) bool { return e.Ref == ref })
		return n, err
	}
}
