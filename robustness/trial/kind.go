package trial

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/fault"
)

// kind is one way to aim a fault. It is either aimed at a client, and played by
// each stage alone, or at servers, and met by all stages of a round at once.
type kind struct {
	name string

	process   bool // the holder is a process
	four      bool // one more waits, behind the last
	headStays bool // the head waiter holds until it is told to give back
	foul      bool // somebody else ends the holder's hold: nobody can be told before

	// refuses says that the service gives no new sessions meanwhile, so that who has
	// lost one, for whatever reason, is told so instead of waiting.
	refuses bool

	// members says which servers the client of a player has; nil for all.
	members func(st *stage, i int) []int

	// who has to be at the member that is aimed at; nil if nobody has.
	who func(st *stage) *player

	// before is what the third player and the fourth do instead of asking and
	// waiting.
	before func(ctx context.Context, st *stage) error

	// play is all of a client's fault.
	play func(ctx context.Context, st *stage)

	// choose, strike and heal are what is done to servers; after is what each
	// stage does while the fault lasts.
	choose func(ctx context.Context, a *aim) error
	strike func(ctx context.Context, a *aim, all []*stage) error
	after  func(ctx context.Context, st *stage)
	heal   func(ctx context.Context, a *aim, all []*stage) error
}

// server says whether the fault is aimed at servers.
func (k *kind) server() bool { return k.strike != nil }

// aim is what a fault is aimed at, among servers.
type aim struct {
	svc    Service
	rng    *rand.Rand
	member int // the one that is harmed
	leader int // who led before
	end    func(context.Context) error
}

func (a *aim) target() Member { return a.svc.Members()[a.member] }

// others are the members beside the one that is harmed.
func (a *aim) others() []int {
	all := []int{0, 1, 2}
	return slices.DeleteFunc(all, func(i int) bool { return i == a.member })
}

// losing is what the kinds begin with that lose a reply.
const losing = "lost-"

// clientKinds are aimed at clients. Beside them there is one for each kind of
// request whose reply can be lost.
func clientKinds() []*kind {
	return []*kind{
		{name: "holder-cut", headStays: true, play: cutHolder(fault.Both)},
		{name: "holder-requests-cut", headStays: true, play: cutHolder(fault.Requests)},
		{name: "holder-replies-cut", headStays: true, play: cutHolder(fault.Replies)},
		{name: "holder-stopped", process: true, headStays: true, play: stopHolder},
		{name: "waiter-cut", play: cutWaiter},
		{name: "holder-session-ended", headStays: true, foul: true, play: endHolderSession},
		{name: "waiter-session-ended", play: endWaiterSession},
		{name: "holder-entry-deleted", headStays: true, foul: true, play: deleteHolderEntry},
		{name: "waiter-entry-deleted", play: deleteWaiterEntry},
		{name: "delayed-replies", play: delayReplies},
	}
}

// serverKinds are aimed at servers.
func serverKinds() []*kind {
	return []*kind{
		{
			name: "head-waiters-member-cut", choose: anyMember, members: headThere,
			who: (*stage).head, strike: cutMember, after: passOn, heal: healMember,
		},
		{
			name: "holders-member-cut", headStays: true, choose: aFollower, members: holderThere,
			who: (*stage).holder, strike: cutMember, after: holderWithoutLeader, heal: healMember,
		},
		{name: "leader-killed", choose: theLeader, strike: killLeader, after: passOn, heal: restartMember},
		{name: "leader-stopped", choose: theLeader, strike: stopLeader, after: passOn, heal: resumeMember},
		{name: "leader-moved", choose: aFollower, strike: moveLeader, after: passOn},
		{name: "compaction", strike: compact, after: goOn},
		{name: "disk-full", choose: anyMember, strike: fillMember, after: passOn, heal: replaceMember},
		{name: "quota", refuses: true, strike: reachQuota, after: passOn, heal: endQuota},
	}
}

// Aimed are the names of all kinds of faults but those that lose a reply, which
// depend on the requests that a service knows: those aimed at clients, and those
// aimed at servers.
func Aimed() (clients, servers []string) {
	for _, k := range clientKinds() {
		clients = append(clients, k.name)
	}
	for _, k := range serverKinds() {
		servers = append(servers, k.name)
	}
	return clients, servers
}

// find returns the kind of that name, nil if there is none.
func find(name string) *kind {
	if request, ok := strings.CutPrefix(name, losing); ok {
		return loses(request)
	}
	for _, k := range slices.Concat(clientKinds(), serverKinds()) {
		if k.name == name {
			return k
		}
	}
	return nil
}
