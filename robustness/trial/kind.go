package trial

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/fault"
)

// kind is one way to aim a fault. A fault is aimed either at a client, once in each trial,
// or at servers, once for all trials of a round.
type kind struct {
	name string

	process      bool   // the holder is a process
	shared       bool   // the head waiter is of the holder's session, if the lock is Fairlock's
	rollout      bool   // the participants campaign in an election, of Fairlock; the last one only in run
	four         bool   // a fourth participant waits, behind the last
	late         bool   // the replies to all clients are late
	headStays    bool   // the head waiter holds until the script releases it
	breaks       *Break // the fault of a Breaker; nil for all others
	endedByOther bool   // another client ends the holder's hold: the holder cannot be notified before

	// refusesSessions means that the service refuses new sessions during the fault. A
	// request of a client that has lost its session, for whatever reason, then fails
	// instead of waiting.
	refusesSessions bool

	// members returns the members that the client of participant i may connect to; all
	// if it is nil, or returns nil.
	members func(tr *trial, i int) []int

	// atTarget returns the participant that must be connected to the targeted member;
	// it is nil if none must be.
	atTarget func(tr *trial) *participant

	// before, if set, is what the third and the fourth participant do instead of only
	// requesting the lock.
	before func(ctx context.Context, tr *trial) error

	// run is the whole script of a fault that is aimed at a client.
	run func(ctx context.Context, tr *trial)

	// choose, inject and heal are the fault that is aimed at servers; after is what each
	// trial does while the fault lasts.
	choose func(ctx context.Context, a *aim) error
	inject func(ctx context.Context, a *aim, all []*trial) error
	after  func(ctx context.Context, tr *trial)
	heal   func(ctx context.Context, a *aim, all []*trial) error
}

// server reports whether the fault is aimed at servers.
func (k *kind) server() bool { return k.inject != nil }

// aim is the server that a fault is aimed at.
type aim struct {
	svc    Service
	rng    *rand.Rand
	member int                         // the targeted one
	leader int                         // the leader before the fault
	end    func(context.Context) error // ends the quota
}

func (a *aim) target() Member { return a.svc.Members()[a.member] }

// others returns all members except the targeted one.
func (a *aim) others() []int {
	all := []int{0, 1, 2}
	return slices.DeleteFunc(all, func(i int) bool { return i == a.member })
}

// lostPrefix begins the names of the kinds that lose a reply.
const lostPrefix = "lost-"

// clientKinds returns the kinds that are aimed at clients, except those that lose a reply:
// losesReply returns one for each kind of request.
func clientKinds() []*kind {
	return []*kind{
		{name: "holder-cut", headStays: true, run: cutHolder(fault.Both)},
		{name: "holder-requests-cut", headStays: true, run: cutHolder(fault.Requests)},
		{name: "holder-replies-cut", headStays: true, run: cutHolder(fault.Replies)},
		{name: "holder-stopped", process: true, headStays: true, run: stopHolder},
		{name: "waiter-cut", run: cutWaiter},
		{name: "holder-session-ended", headStays: true, endedByOther: true, run: endHolderSession},
		{name: "waiter-session-ended", run: endWaiterSession},
		{name: "holder-entry-deleted", headStays: true, endedByOther: true, run: deleteHolderEntry},
		{name: "waiter-entry-deleted", run: deleteWaiterEntry},
		{name: "delayed-replies", run: delayReplies, late: true},
		{name: "passed-cut", shared: true, headStays: true, run: cutPassed(fault.Both)},
		{name: "passed-replies-cut", shared: true, headStays: true, run: cutPassed(fault.Replies)},
		{name: "rollout-cut", rollout: true, run: rollOut(cutHolder(fault.Both))},
		{name: "rollout-replies-cut", rollout: true, run: rollOut(cutHolder(fault.Replies))},
		{name: "rollout-newer-cut", rollout: true, run: rollOut(cutNewer)},
		{name: "rollout-killed", rollout: true, process: true, run: rollOut(killHolder)},
	}
}

// processKinds returns the kinds that are aimed at clients of a Breaker only: elsewhere the end of
// a process is the end of its renewals, which other kinds show.
func processKinds() []*kind {
	return []*kind{{name: "holder-killed", process: true, headStays: true, run: killHolder}}
}

// serverKinds returns the kinds that are aimed at servers.
func serverKinds() []*kind {
	return []*kind{
		{
			name: "head-waiters-member-cut", choose: anyMember, members: headAtTarget,
			atTarget: (*trial).head, inject: cutMember, after: handOver, heal: healMember,
		},
		{
			name: "holders-member-cut", headStays: true, choose: aFollower, members: holderAtTarget,
			atTarget: (*trial).holder, inject: cutMember, after: holderWithoutLeader, heal: healMember,
		},
		{name: "leader-killed", choose: theLeader, inject: killLeader, after: handOver, heal: restartMember},
		{name: "leader-stopped", choose: theLeader, inject: stopLeader, after: handOver, heal: resumeMember},
		{name: "leader-moved", choose: aFollower, inject: moveLeader, after: handOver},
		{name: "compaction", inject: compact, after: grantRest},
		{name: "disk-full", choose: anyMember, inject: fillMember, after: handOver, heal: replaceMember},
		{name: "quota", refusesSessions: true, inject: reachQuota, after: handOver, heal: endQuota},
	}
}

// Aimed returns the names of the kinds of faults that are aimed at clients, and of those
// that are aimed at servers. It leaves out those that lose a reply, which depend on the
// requests of a service.
func Aimed() (clients, servers []string) {
	for _, k := range clientKinds() {
		clients = append(clients, k.name)
	}
	for _, k := range serverKinds() {
		servers = append(servers, k.name)
	}
	return clients, servers
}

// find returns the kind of that name, also among more; nil if there is none.
func find(name string, more ...*kind) *kind {
	request, ok := strings.CutPrefix(name, lostPrefix)
	if ok {
		return losesReply(request)
	}
	for _, k := range slices.Concat(clientKinds(), processKinds(), serverKinds(), more) {
		if k.name == name {
			return k
		}
	}
	return nil
}
