package drivertest_test

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// call is a method of a session that takes one argument and has an answer.
type call[Q, A any] = func(s driver.Session, ctx context.Context, q Q) (A, error)

// badBackend is a backend whose calls a defect replaces.
type badBackend struct {
	driver.Backend
	st   *membackend.Store
	c    *membackend.Client
	seen *sync.Map // entries that a defect keeps in mind, for all clients of a store

	config func(cfg *driver.Config)
	list   func(all []driver.Entry) []driver.Entry
	names  func(all []string) []string
	evict  func(ctx context.Context, e driver.Entry) error

	join     call[driver.JoinRequest, driver.Joined]
	joinAll  call[[]driver.JoinRequest, []driver.Joined]
	leave    call[driver.LeaveRequest, driver.Left]
	leaveAll call[[]driver.LeaveRequest, []driver.Left]
	look     call[driver.LookRequest, driver.View]
	share    call[driver.Ref, driver.Turned]
	claim    call[driver.Ref, driver.Number]
	enter    call[driver.Ref, driver.Past]
	admit    func(s driver.Session, ctx context.Context, ref driver.Ref) error
	record   func(s driver.Session, ctx context.Context, ref driver.Ref, granted time.Time) error
	write    func(s driver.Session, ctx context.Context, ref driver.Ref, value []byte) error
	setLimit func(s driver.Session, ctx context.Context, line string, limit int64) error
	watch    func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func()
	prove    func(s driver.Session)
	abandon  func(s driver.Session)
	close    func(s driver.Session, ctx context.Context) error
}

func newBadBackend(st *membackend.Store, c *membackend.Client, seen *sync.Map) *badBackend {
	return &badBackend{
		Backend: c.Backend(), st: st, c: c, seen: seen,
		config: func(*driver.Config) {},
		list:   func(all []driver.Entry) []driver.Entry { return all },
		names:  func(all []string) []string { return all },
		evict:  c.Backend().Evict,
		join:   driver.Session.Join, joinAll: driver.Session.JoinAll, leave: driver.Session.Leave, leaveAll: driver.Session.LeaveAll,
		look: driver.Session.Look, share: driver.Session.Share, claim: driver.Session.Claim, enter: driver.Session.Enter,
		admit: driver.Session.Admit, record: driver.Session.Record, write: driver.Session.Write, setLimit: driver.Session.SetLimit,
		watch: driver.Session.Watch, prove: driver.Session.Prove, abandon: driver.Session.Abandon, close: driver.Session.Close,
	}
}

// before plants a defect into the argument of a call.
func before[Q, A any](of *call[Q, A], change func(q *Q)) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		change(&q)
		return sound(s, ctx, q)
	}
}

// after plants a defect into the answer of a call that has one.
func after[Q, A any](of *call[Q, A], change func(q Q, a *A)) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		a, err := sound(s, ctx, q)
		if err == nil {
			change(q, &a)
		}
		return a, err
	}
}

// failed plants a defect into the error of a call, which may be nil.
func failed[Q, A any](of *call[Q, A], change func(s driver.Session, q Q, err error) error) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		a, err := sound(s, ctx, q)
		return a, change(s, q, err)
	}
}

// told plants a defect into the events of watches. Each watch gets a filter.
func (b *badBackend) told(filter func(req driver.WatchRequest) func(ev *driver.Event) bool) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		pass := filter(req)
		return s.Watch(req, func(ev driver.Event) {
			if pass(&ev) {
				f(ev)
			}
		})
	}
}

// watching plants a defect into the requests of watches.
func (b *badBackend) watching(change func(req *driver.WatchRequest)) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		change(&req)
		return s.Watch(req, f)
	}
}

// shown plants a defect into what List and Look show.
func (b *badBackend) shown(change func(all []driver.Entry) []driver.Entry) {
	b.list = change
	after(&b.look, func(_ driver.LookRequest, v *driver.View) { v.Entries = change(v.Entries) })
}

// marked plants a defect into each entry that List and Look show.
func (b *badBackend) marked(change func(e *driver.Entry)) {
	b.shown(func(all []driver.Entry) []driver.Entry {
		for i := range all {
			change(&all[i])
		}
		return all
	})
}

// entry names an entry of one of the stores.
type entry struct {
	st  *membackend.Store
	ref driver.Ref
}

func (b *badBackend) keep(ref driver.Ref)   { b.seen.Store(entry{b.st, ref}, true) }
func (b *badBackend) forget(ref driver.Ref) { b.seen.Delete(entry{b.st, ref}) }

func (b *badBackend) kept(ref driver.Ref) bool {
	_, ok := b.seen.Load(entry{b.st, ref})
	return ok
}

func (b *badBackend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	b.config(&cfg)
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return badSession{s, b}, nil
}

func (b *badBackend) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	all, err := b.Backend.List(ctx, name, most)
	return b.list(all), err
}

func (b *badBackend) Names(ctx context.Context, prefix string) ([]string, error) {
	all, err := b.Backend.Names(ctx, prefix)
	return b.names(all), err
}

func (b *badBackend) Evict(ctx context.Context, e driver.Entry) error { return b.evict(ctx, e) }

// badSession is a session of a badBackend.
type badSession struct {
	driver.Session
	b *badBackend
}

func (s badSession) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	return s.b.join(s.Session, ctx, req)
}

func (s badSession) JoinAll(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	return s.b.joinAll(s.Session, ctx, reqs)
}

func (s badSession) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	return s.b.leave(s.Session, ctx, req)
}

func (s badSession) LeaveAll(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	return s.b.leaveAll(s.Session, ctx, reqs)
}

func (s badSession) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	return s.b.look(s.Session, ctx, req)
}

func (s badSession) Share(ctx context.Context, ref driver.Ref) (driver.Turned, error) {
	return s.b.share(s.Session, ctx, ref)
}

func (s badSession) Claim(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	return s.b.claim(s.Session, ctx, ref)
}

func (s badSession) Enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	return s.b.enter(s.Session, ctx, ref)
}

func (s badSession) Admit(ctx context.Context, ref driver.Ref) error {
	return s.b.admit(s.Session, ctx, ref)
}

func (s badSession) Record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	return s.b.record(s.Session, ctx, ref, granted)
}

func (s badSession) Write(ctx context.Context, ref driver.Ref, value []byte) error {
	return s.b.write(s.Session, ctx, ref, value)
}

func (s badSession) SetLimit(ctx context.Context, line string, limit int64) error {
	return s.b.setLimit(s.Session, ctx, line, limit)
}

func (s badSession) Watch(req driver.WatchRequest, f func(driver.Event)) func() {
	return s.b.watch(s.Session, req, f)
}

func (s badSession) Prove() { s.b.prove(s.Session) }

func (s badSession) Abandon() { s.b.abandon(s.Session) }

func (s badSession) Close(ctx context.Context) error { return s.b.close(s.Session, ctx) }
