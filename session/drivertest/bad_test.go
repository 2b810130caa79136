package drivertest_test

import (
	"context"
	"sync"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// badBackend is a backend with a place for a defect in every call. A nil field
// passes the call on.
type badBackend struct {
	driver.Backend
	st    *membackend.Store
	c     *membackend.Client
	words *words

	blinking *sync.Map // entries that looks miss, for all clients of a store

	config func(cfg driver.Config) driver.Config
	list   func(name string, all []driver.Entry) []driver.Entry
	names  func(all []string) []string
	evict  func(ctx context.Context, e driver.Entry) error
	join   func(ctx context.Context, s driver.Session, req driver.JoinRequest) (driver.Joined, error)
	leave  func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error)
	look   func(ctx context.Context, s driver.Session, req driver.LookRequest) (driver.View, error)
	watch  func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func()
	several
	prove   func(s driver.Session, cfg driver.Config)
	abandon func(s driver.Session)
	close   func(ctx context.Context, s driver.Session) error
}

func (b *badBackend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	if b.config != nil {
		cfg = b.config(cfg)
	}
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return badSeveral{&badSession{Session: s, b: b, cfg: cfg}}, nil
}

func (b *badBackend) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	all, err := b.Backend.List(ctx, name, most)
	if b.list != nil && err == nil {
		all = b.list(name, all)
	}
	return all, err
}

func (b *badBackend) Names(ctx context.Context, prefix string) ([]string, error) {
	all, err := b.Backend.Names(ctx, prefix)
	if b.names != nil && err == nil {
		all = b.names(all)
	}
	return all, err
}

type badSession struct {
	driver.Session
	b   *badBackend
	cfg driver.Config
}

func (s *badSession) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	if s.b.join == nil {
		return s.Session.Join(ctx, req)
	}
	return s.b.join(ctx, s.Session, req)
}

func (s *badSession) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	if s.b.leave == nil {
		return s.Session.Leave(ctx, req)
	}
	return s.b.leave(ctx, s.Session, req)
}

func (s *badSession) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	if s.b.look == nil {
		return s.Session.Look(ctx, req)
	}
	return s.b.look(ctx, s.Session, req)
}

func (s *badSession) Watch(req driver.WatchRequest, f func(driver.Event)) func() {
	if s.b.watch == nil {
		return s.Session.Watch(req, f)
	}
	return s.b.watch(s.Session, req, f)
}

func (s *badSession) Prove() {
	if s.b.prove == nil {
		s.Session.Prove()
		return
	}
	s.b.prove(s.Session, s.cfg)
}

func (s *badSession) Abandon() {
	if s.b.abandon == nil {
		s.Session.Abandon()
		return
	}
	s.b.abandon(s.Session)
}

func (s *badSession) Close(ctx context.Context) error {
	if s.b.close == nil {
		return s.Session.Close(ctx)
	}
	return s.b.close(ctx, s.Session)
}
