package trial

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/fault"
)

// anyMember aims at any.
func anyMember(ctx context.Context, a *aim) (err error) {
	a.member = a.rng.IntN(len(a.svc.Members()))
	a.leader, err = a.svc.Leader(ctx)
	return err
}

// theLeader aims at the leader.
func theLeader(ctx context.Context, a *aim) (err error) {
	a.leader, err = a.svc.Leader(ctx)
	a.member = a.leader
	return err
}

// aFollower aims at one of the others.
func aFollower(ctx context.Context, a *aim) (err error) {
	a.leader, err = a.svc.Leader(ctx)
	n := len(a.svc.Members())
	a.member = (a.leader + 1 + a.rng.IntN(n-1)) % n
	return err
}

// headThere has the head waiter begin at the member that is aimed at, and the
// holder at the others.
func headThere(st *stage, i int) []int {
	switch i {
	case 0:
		return st.aim.others()
	case 1:
		return append([]int{st.aim.member}, st.aim.others()...)
	}
	return nil
}

// holderThere has the holder begin at the member that is aimed at; in every other
// trial it has no other one.
func holderThere(st *stage, i int) []int {
	switch {
	case i > 0:
		return st.aim.others()
	case st.n%2 == 1:
		return []int{st.aim.member}
	}
	return append([]int{st.aim.member}, st.aim.others()...)
}

// cutMember cuts a member off from the others.
func cutMember(ctx context.Context, a *aim, all []*stage) error {
	for _, st := range all {
		st.strike(st.kind.who(st), a.target().CutPeers)
	}
	if !steadily(ctx, a.target().Traffic) {
		return errors.New("nothing waits between the member and the others")
	}
	return nil
}

func healMember(_ context.Context, a *aim, _ []*stage) error {
	a.target().HealPeers()
	return nil
}

// holderWithoutLeader is what follows when the holder's member has no leader: it
// is told, or finds another member.
func holderWithoutLeader(ctx context.Context, st *stage) {
	if await(ctx, st.head().got, 2*TTL) {
		until(ctx, aftermath, st.holder().over)
	}
	passOn(ctx, st)
}

// another waits until somebody else leads.
func another(ctx context.Context, a *aim) error {
	return untilSeen(ctx, patience, func(ctx context.Context) (bool, error) {
		now, err := a.svc.Leader(ctx)
		return err == nil && now != a.leader, err
	})
}

func killLeader(ctx context.Context, a *aim, all []*stage) error {
	strikeAll(all)
	if err := a.target().Kill(); err != nil {
		return err
	}
	if a.target().Running() {
		return errors.New("the leader is still there")
	}
	return another(ctx, a)
}

func restartMember(ctx context.Context, a *aim, _ []*stage) error { return a.target().Restart(ctx) }

func stopLeader(ctx context.Context, a *aim, all []*stage) error {
	strikeAll(all)
	if err := a.target().Pause(); err != nil {
		return err
	}
	return another(ctx, a)
}

func resumeMember(_ context.Context, a *aim, _ []*stage) error { return a.target().Resume() }

func moveLeader(ctx context.Context, a *aim, all []*stage) error {
	strikeAll(all)
	if err := a.svc.MoveLeader(ctx, a.member); err != nil {
		return err
	}
	return another(ctx, a)
}

// compact has every head waiter's connections broken, the holder give back
// meanwhile, and the service forget that. Who comes back cannot be told any more.
func compact(ctx context.Context, a *aim, all []*stage) error {
	var g errgroup.Group
	for _, st := range all {
		g.Go(func() error {
			p := st.head()
			before := p.c.Traffic().Connections
			st.strike(p, func() { p.c.Cut(fault.Both) })
			p.c.Reset()
			if !until(ctx, sight, func() bool { return p.c.Traffic().Connections > before }) {
				st.miss("client %d made no new connections", p.id)
			}
			st.release()
			if !await(ctx, st.holder().gone, sight) {
				st.miss("the holder did not give back in time")
			}
			return nil
		})
	}
	_ = g.Wait() // what is missed is noted
	err := a.svc.Compact(ctx)
	for _, st := range all {
		st.heal()
		st.freed = Now()
	}
	return err
}

// fillMember lets a member's disk be full. The next thing that is written, a
// release, shows what comes of that.
func fillMember(_ context.Context, a *aim, all []*stage) error {
	strikeAll(all)
	return a.target().Fill()
}

// replaceMember sees that the full disk was noticed, and starts the member anew
// with an empty one. The store may take it for the end, or go on without.
func replaceMember(ctx context.Context, a *aim, all []*stage) error {
	if !until(ctx, sight, func() bool { return !a.target().Running() }) {
		for _, st := range all {
			st.miss("the member with the full disk runs on")
		}
	}
	return a.target().Restart(ctx)
}

func reachQuota(ctx context.Context, a *aim, all []*stage) (err error) {
	strikeAll(all)
	a.end, err = a.svc.Quota(ctx)
	return err
}

func endQuota(ctx context.Context, a *aim, _ []*stage) error {
	if a.end == nil {
		return nil
	}
	if err := a.end(ctx); err != nil {
		return fmt.Errorf("end of the quota: %w", err)
	}
	return nil
}

// strikeAll notes that all are struck now.
func strikeAll(all []*stage) {
	for _, st := range all {
		st.strike(nil, func() {})
	}
}
