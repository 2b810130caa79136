package session_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// scripted is a backend in memory whose sessions answer some requests by a script of the test. A
// field that is nil changes nothing.
type scripted struct {
	driver.Backend
	joined func()                                                  // a Join was answered
	leave  func(ctx context.Context) error                         // instead of each Leave; nil error: done
	update func(ctx context.Context, r driver.UpdateRequest) error // before each Update; an error is the answer
	ended  atomic.Bool                                             // the test is over: leave counts no more
}

func (b *scripted) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	return scriptedSession{s, b}, err
}

type scriptedSession struct {
	driver.Session
	b *scripted
}

func (s scriptedSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	joined, err := s.Session.Join(ctx, reqs...)
	if s.b.joined != nil {
		s.b.joined()
	}
	return joined, err
}

func (s scriptedSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if s.b.leave == nil || s.b.ended.Load() {
		return s.Session.Leave(ctx, reqs...)
	}
	return make([]driver.Left, len(reqs)), s.b.leave(ctx)
}

func (s scriptedSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	if s.b.update != nil {
		if err := s.b.update(ctx, req); err != nil {
			return nil, err
		}
	}
	return s.Session.Update(ctx, req)
}

// play returns a hold of the lock "n" by the recipe "k", on a scripted
// backend, and the store of that. A field of b can be set afterwards.
func play(t *testing.T, b *scripted) (st *membackend.Store, s *session.Session, h *session.Hold) {
	t.Helper()
	st = membackend.New()
	b.Backend = st.Backend()
	s, err := core.Open(t.Context(), b, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		b.ended.Store(true)
		assert.NoError(t, s.Close())
	})
	h, err = core.Acquire(t.Context(), s, requestK(driver.Exclusive))
	require.NoError(t, err)
	return st, s, h
}

// requestK is a request of the recipe "k".
func requestK(mode driver.Mode) engine.Request {
	return engine.Request{
		Name: "n", Kind: "k", Mode: mode, Rule: rule.ReadWrite(), Family: driver.FamilyReadWrite, Reenter: mode == driver.Shared,
	}
}
