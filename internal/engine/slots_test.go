package engine_test

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// lateUpdates is a backend whose service carries out a refused Update once more, after the next
// Read: an attempt that was not answered has arrived so late.
type lateUpdates struct {
	driver.Backend
	before func() // is called before that
	done   atomic.Int32
}

func (b *lateUpdates) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	return &lateSession{Session: s, b: b}, err
}

type lateSession struct {
	driver.Session
	b    *lateUpdates
	late *driver.UpdateRequest
}

func (s *lateSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	results, err := s.Session.Update(ctx, req)
	if err != nil {
		s.late = &req
	}
	return results, err
}

func (s *lateSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.Session.Read(ctx, req)
	if late := s.late; late != nil {
		s.late = nil
		s.b.before()
		if _, err := s.Session.Update(ctx, *late); err == nil {
			s.b.done.Add(1)
		}
	}
	return v, err
}

func TestReleaseFreesEverySlotThatTheRequestAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := mem().New(memory.Options{}, nil)
		acquire := func(b driver.Backend) *session.Hold {
			s, err := inside().Open(t.Context(), b, nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			h, err := inside().Acquire(t.Context(), s, engine.Request{
				Name: "n", Kind: "semaphore", Rule: rule.Semaphore(), Mode: driver.Weighted, Weight: 1, Limit: 3, Slots: true,
			})
			require.NoError(t, err)
			return h
		}
		first, second := acquire(st.Backend()), acquire(st.Backend())
		require.Equal(t, 1, second.Slot())
		require.NoError(t, first.Unlock())
		late := &lateUpdates{Backend: st.Backend(), before: func() { assert.NoError(t, second.Unlock()) }}
		third := acquire(late)
		require.Equal(t, 0, third.Slot(), "slot 1 was not free when it asked")
		require.EqualValues(t, 1, late.done.Load(), "it has both now")
		require.NoError(t, third.Unlock())

		assert.Equal(t, []string{rule.RecordLimit}, slices.Collect(maps.Keys(mem().Records(st, "n"))))
	})
}
