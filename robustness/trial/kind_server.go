package trial

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/fault"
)

// anyMember aims at a random member.
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

// aFollower aims at a random member that does not lead.
func aFollower(ctx context.Context, a *aim) (err error) {
	a.leader, err = a.svc.Leader(ctx)
	n := len(a.svc.Members())
	a.member = (a.leader + 1 + a.rng.IntN(n-1)) % n
	return err
}

// headAtTarget connects the head waiter to the targeted member, and the holder to the
// others.
func headAtTarget(tr *trial, i int) []int {
	switch i {
	case 0:
		return tr.aim.others()
	case 1:
		return append([]int{tr.aim.member}, tr.aim.others()...)
	}
	return nil
}

// holderAtTarget connects the holder to the targeted member. In every other trial the
// holder cannot connect to any other.
func holderAtTarget(tr *trial, i int) []int {
	switch {
	case i > 0:
		return tr.aim.others()
	case tr.n%2 == 1:
		return []int{tr.aim.member}
	}
	return append([]int{tr.aim.member}, tr.aim.others()...)
}

// cutMember cuts a member off from the others.
func cutMember(ctx context.Context, a *aim, all []*trial) error {
	for _, tr := range all {
		tr.inject(tr.kind.atTarget(tr), a.target().CutPeers)
	}
	if !heldBack(ctx, a.target().Traffic) {
		return errors.New("nothing waits between the member and the others")
	}
	return nil
}

func healMember(_ context.Context, a *aim, _ []*trial) error {
	a.target().HealPeers()
	return nil
}

// holderWithoutLeader is the rest of a script in which the holder's member has no leader.
// The holder is notified, or connects to another member.
func holderWithoutLeader(ctx context.Context, tr *trial) {
	if await(ctx, tr.head().got, 2*TTL) {
		until(ctx, noticeTime, tr.holder().over)
	}
	handOver(ctx, tr)
}

// awaitOtherLeader waits until another member leads.
func awaitOtherLeader(ctx context.Context, a *aim) error {
	return untilSeen(ctx, timeout, func(ctx context.Context) (bool, error) {
		now, err := a.svc.Leader(ctx)
		return err == nil && now != a.leader, err
	})
}

func killLeader(ctx context.Context, a *aim, all []*trial) error {
	markFault(all)
	if err := a.target().Kill(); err != nil {
		return err
	}
	if a.target().Running() {
		return errors.New("the leader still runs")
	}
	return awaitOtherLeader(ctx, a)
}

func restartMember(ctx context.Context, a *aim, _ []*trial) error { return a.target().Restart(ctx) }

func stopLeader(ctx context.Context, a *aim, all []*trial) error {
	markFault(all)
	if err := a.target().Pause(); err != nil {
		return err
	}
	return awaitOtherLeader(ctx, a)
}

func resumeMember(_ context.Context, a *aim, _ []*trial) error { return a.target().Resume() }

func moveLeader(ctx context.Context, a *aim, all []*trial) error {
	markFault(all)
	if err := a.svc.MoveLeader(ctx, a.member); err != nil {
		return err
	}
	return awaitOtherLeader(ctx, a)
}

// compact breaks every head waiter's connections, has the holder release meanwhile, and
// has the service remove the revision of that release. When the waiter connects again, the
// service cannot send it that event.
func compact(ctx context.Context, a *aim, all []*trial) error {
	var g errgroup.Group
	for _, tr := range all {
		g.Go(func() error {
			p := tr.head()
			before := p.c.Traffic().Connections
			tr.inject(p, func() { p.c.Cut(fault.Both) })
			p.c.Reset()
			if !until(ctx, effectTimeout, func() bool { return p.c.Traffic().Connections > before }) {
				tr.miss("client %d made no new connections", p.id)
			}
			tr.releaseHolder()
			if !await(ctx, tr.holder().done, effectTimeout) {
				tr.miss("the holder did not release in time")
			}
			return nil
		})
	}
	_ = g.Wait() // the trials note what fails
	err := a.svc.Compact(ctx)
	for _, tr := range all {
		tr.heal()
		tr.releasedAt = Now()
	}
	return err
}

// fillMember fills a member's disk. The next write, a release, shows the effect.
func fillMember(_ context.Context, a *aim, all []*trial) error {
	markFault(all)
	return a.target().Fill()
}

// replaceMember checks that the member noticed its full disk, and restarts it with a disk
// that takes writes. When its disk is full, a member ends, or stays and does not serve.
func replaceMember(ctx context.Context, a *aim, all []*trial) error {
	if !until(ctx, effectTimeout, func() bool { return !a.target().Running() }) {
		for _, tr := range all {
			tr.miss("the member with the full disk still serves")
		}
	}
	return a.target().Restart(ctx)
}

func reachQuota(ctx context.Context, a *aim, all []*trial) (err error) {
	markFault(all)
	a.end, err = a.svc.Quota(ctx)
	return err
}

func endQuota(ctx context.Context, a *aim, _ []*trial) error {
	if a.end == nil {
		return nil
	}
	if err := a.end(ctx); err != nil {
		return fmt.Errorf("end of the quota: %w", err)
	}
	return nil
}

// markFault notes in all trials that the fault is injected now.
func markFault(all []*trial) {
	for _, tr := range all {
		tr.inject(nil, func() {})
	}
}
