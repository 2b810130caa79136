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

// noFaults is a service whose faults have no effect.
type noFaults struct{ trial.Service }

func (s noFaults) Client(ctx context.Context, lock string, members ...int) (trial.Client, error) {
	c, err := s.Service.Client(ctx, lock, members...)
	if err != nil {
		return nil, err
	}
	return noFaultsClient{c}, nil
}

func (s noFaults) EndSession(context.Context, string) error { return nil }

func (s noFaults) MoveLeader(context.Context, int) error { return nil }

func (s noFaults) Members() []trial.Member {
	var all []trial.Member
	for _, m := range s.Service.Members() {
		all = append(all, noFaultsMember{m})
	}
	return all
}

type noFaultsClient struct{ trial.Client }

func (noFaultsClient) Cut(fault.Direction)     {}
func (noFaultsClient) Delay(time.Duration)     {}
func (noFaultsClient) Lose(string) func() bool { return func() bool { return false } }

type noFaultsMember struct{ trial.Member }

func (noFaultsMember) CutPeers() {}

// TestFaultWithoutEffectIsMissed runs trials whose faults have no effect. None of them
// may count as a hit, although the lock keeps its promises.
func TestFaultWithoutEffectIsMissed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	svc, err := onetcd.Start(ctx)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	test := trial.New(noFaults{svc}, trial.Ours, 1)
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
