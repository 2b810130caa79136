//go:build failpoints

package membackend_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// Each failpoint of this package has its effect only while it is on.
func TestFailpointsBreakTheService(t *testing.T) {
	defer failpoint.Disable()
	for p, broken := range map[failpoint.Point]func(t *testing.T, on bool){
		failpoint.JoinTwice: func(t *testing.T, on bool) {
			st, c, s, _ := serve(t, memory.Options{})
			c.Inject(fault.Join, fault.BrokenReply)
			join(t, s, "jobs")
			assert.Equal(t, on, len(entries(st, "jobs")) == 2)
		},
		failpoint.LateJoin: func(t *testing.T, on bool) {
			st, c, s, _ := serve(t, memory.Options{})
			var p *driver.PendingError
			require.ErrorAs(t, late(t, c, fault.Join, func(ctx context.Context) error {
				_, err := s.Join(ctx, driver.JoinRequest{Queue: "jobs"})
				return err
			}), &p)
			require.NoError(t, p.Settle(t.Context()))
			c.Deliver()
			assert.Equal(t, on, len(entries(st, "jobs")) == 1)
		},
		failpoint.LimitCopied: func(t *testing.T, on bool) {
			st, c, s, _ := serve(t, memory.Options{})
			_ = late(t, c, fault.Update, func(ctx context.Context) error {
				_, err := s.Update(ctx, driver.UpdateRequest{Queue: "jobs", Ops: []driver.Op{{Record: "limit", If: driver.At(5), Value: []byte("5")}}})
				return err
			})
			set(t, s, "limit", 0, "3")
			c.Deliver()
			assert.Equal(t, on, st.Limit("jobs") == 5)
		},
		failpoint.DowngradeAnew: func(t *testing.T, on bool) {
			st, _, s, _ := serve(t, memory.Options{})
			a, b := join(t, s, "jobs"), join(t, s, "jobs")
			_, err := s.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Entry: a.Ref, Marks: driver.MarkShared})
			require.NoError(t, err)
			all := entries(st, "jobs")
			require.Len(t, all, 2)
			assert.Equal(t, on, all[0].Ref == b.Ref)
			assert.True(t, all[0].Shares() != all[1].Shares())
		},
	} {
		for _, on := range []bool{false, true} {
			t.Run(p.String(), func(t *testing.T) {
				failpoint.Disable()
				if on {
					failpoint.Enable(p)
				}
				synctest.Test(t, func(t *testing.T) { broken(t, on) })
			})
		}
	}
}
