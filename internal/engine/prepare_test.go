package engine_test

import (
	"context"
	"fmt"
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

// unknownUpdates is a backend whose first Update of a session is carried out, or is not, and whose
// outcome is not known, while the session and its entries live.
type unknownUpdates struct {
	driver.Backend
	carriedOut bool
}

func (b unknownUpdates) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	return &unknownSession{Session: s, b: b}, err
}

type unknownSession struct {
	driver.Session
	b    unknownUpdates
	sent atomic.Int32
}

func (s *unknownSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	if s.sent.Add(1) > 1 {
		return s.Session.Update(ctx, req)
	}
	if s.b.carriedOut {
		_, _ = s.Session.Update(ctx, req)
	}
	return nil, fmt.Errorf("%w: the records have changed", driver.ErrUnavailable)
}

// A waiter whose turn has come, and whose entry lives, keeps its place if it is not known whether
// it has written its records.
func TestAnUnknownRecordCostsNoPlace(t *testing.T) {
	robust := engine.Request{Name: "n", Kind: "mutex", Rule: rule.Mutex(), Mode: driver.Exclusive, Ledger: true}
	slots := engine.Request{
		Name: "n", Kind: "semaphore", Rule: rule.Semaphore(), Mode: driver.Weighted, Weight: 1, Limit: 1, Slots: true,
	}
	for name, r := range map[string]engine.Request{"ledger": robust, "slot": slots} {
		for _, carriedOut := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				st := mem().New(memory.Options{}, nil)
				acquire := func(b driver.Backend) (got chan *session.Hold) {
					s, err := inside().Open(t.Context(), b, nil)
					require.NoError(t, err)
					t.Cleanup(func() { _ = s.Close() })
					got = make(chan *session.Hold, 1)
					go func() {
						h, err := inside().Acquire(t.Context(), s, r)
						assert.NoError(t, err)
						got <- h
					}()
					synctest.Wait()
					return got
				}
				first := <-acquire(st.Backend())
				second := acquire(unknownUpdates{st.Backend(), carriedOut})
				third := acquire(st.Backend())
				require.NoError(t, first.Unlock())

				var h *session.Hold
				select {
				case h = <-second:
				case <-third:
					require.Fail(t, "the next one has passed it", name)
				}
				assert.False(t, h.PreviousDied())
				if r.Slots {
					assert.Zero(t, h.Slot())
				}
				require.NoError(t, h.Unlock())
				h = <-third
				assert.False(t, h.PreviousDied())
				require.NoError(t, h.Unlock())
			})
		}
	}
}
