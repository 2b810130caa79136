package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/trial"
)

// blunt is a service whose faults do nothing.
type blunt struct{ trial.Service }

func (b blunt) Client(ctx context.Context, lock string, members ...int) (trial.Client, error) {
	c, err := b.Service.Client(ctx, lock, members...)
	if err != nil {
		return nil, err
	}
	return bluntClient{c}, nil
}

func (b blunt) EndSession(context.Context, string) error { return nil }

func (b blunt) MoveLeader(context.Context, int) error { return nil }

func (b blunt) Members() []trial.Member {
	var all []trial.Member
	for _, m := range b.Service.Members() {
		all = append(all, bluntMember{m})
	}
	return all
}

type bluntClient struct{ trial.Client }

func (bluntClient) Cut(fault.Direction)     {}
func (bluntClient) Delay(time.Duration)     {}
func (bluntClient) Lose(string) func() bool { return func() bool { return false } }

type bluntMember struct{ trial.Member }

func (bluntMember) CutPeers() {}

// TestAFaultThatMeetsNothingIsMissed plays trials whose faults do nothing. None of
// them may count, however well the lock has done.
func TestAFaultThatMeetsNothingIsMissed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	svc, err := onetcd.Start(ctx)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	test := trial.New(blunt{svc}, trial.Ours, 1)
	var all sync.WaitGroup
	for _, kind := range []string{
		"waiter-cut", "delayed-replies", "lost-join", "waiter-session-ended", "head-waiters-member-cut",
	} {
		all.Go(func() {
			rs, err := test.Round(ctx, kind, 1)

			if assert.NoError(t, err) {
				assert.False(t, rs[0].Hit(), kind)
				assert.Zero(t, rs[0].Faults, kind)
				t.Log(kind, rs[0].Missed)
			}
		})
	}
	all.Wait()
}
