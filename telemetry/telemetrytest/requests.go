package telemetrytest

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// requests are the cases of requests and holds.
func requests() []testCase {
	return []testCase{
		{"FreeLockIsAcquiredAndHeld", nil, free},
		{"WaiterIsCountedUntilItsGrant", nil, waiter},
		{"HandOffIsMeasuredFromReleaseToGrant", nil, handOff},
		{"HandOffBetweenSessionsIsMeasured", nil, handOffBetween},
		{"HandOffTakesNoTimeIfTheGrantComesFirst", nil, handOffBefore},
		{"HandOffToSeveralReadersIsMeasuredForEach", nil, handOffToReaders},
		{"HandOffOfSeveralLocksIsMeasured", nil, handOffOfSeveral},
		{"ReleaseOfAnotherProcessIsNoHandOff", nil, foreignRelease},
		{"TryFindsTheLockTaken", nil, taken},
		{"CancelledWaiterGaveUp", nil, gaveUp},
		{"InvalidRequestIsRefused", nil, refused},
		{"PendingReleaseEndsTheHoldAndIsNoHandOff", nil, pending},
		{"WaiterThatLosesItsPlaceRejoins", nil, rejoin},
		{"SeveralLocksAreOneRequest", nil, several},
		{"PermitsAreHolds", nil, permits},
		{"LeaderAndReadersHaveTheirKind", nil, kinds},
		{"ReentrantHoldIsOne", nil, reentrant},
	}
}

// of are the values of a mutex.
func of(name string) telemetry.Values { return telemetry.Values{Name: name, Kind: "mutex"} }

// outcome are the values of a request for a mutex.
func outcome(name, outcome string) telemetry.Values {
	return telemetry.Values{Name: name, Kind: "mutex", Mode: "exclusive", Outcome: outcome}
}

// end are the values of a hold of a mutex.
func end(name, end string) telemetry.Values {
	return telemetry.Values{Name: name, Kind: "mutex", Mode: "exclusive", End: end}
}

// after are the values of a hand-off.
func after(name string) telemetry.Values { return telemetry.Values{Name: name} }

func free(x *fixture) {
	h := x.lock(x.s, "n")
	time.Sleep(2 * time.Second)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		counted(telemetry.Holds, 1, of("n")),
	)...)
	x.unlock(h)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		measured(telemetry.HoldDuration, end("n", "released"), 2),
	)...)
}

func waiter(x *fixture) {
	h := x.lock(x.other, "n")
	granted := x.waits(mutex.New(x.s, "n").Lock)
	time.Sleep(3 * time.Second)
	x.shows(x.live(counted(telemetry.Waiters, 1, of("n")))...)
	x.unlock(h)
	mine := <-granted
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 3),
		counted(telemetry.Holds, 1, of("n")),
	)...)
	x.unlock(mine)
}

// handOff has a hold that Unlock releases 4 s before the service learns of it.
func handOff(x *fixture) {
	h, err := mutex.NewWith(x.s, "n", mutex.Options{MinHold: 7 * time.Second}).Lock(x.t.Context())
	require.NoError(x.t, err)
	granted := x.waits(mutex.New(x.s, "n").Lock)
	time.Sleep(3 * time.Second)
	x.unlock(h)
	second := <-granted
	granted = x.waits(mutex.New(x.s, "n").Lock)
	x.unlock(second)
	x.unlock(<-granted)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0, 7, 0),
		measured(telemetry.HoldDuration, end("n", "released"), 3, 0, 0),
		measured(telemetry.HandoffDuration, after("n"), 4, 0),
	)...)
}

// handOffBetween has a waiter whose client learns of the release a second later.
func handOffBetween(x *fixture) {
	net := x.store.NewClient()
	s := x.open(net)
	h := x.lock(x.s, "n")
	granted := x.waits(mutex.New(s, "n").Lock)
	net.Delay(time.Second)
	time.Sleep(time.Second)
	x.unlock(h)
	mine := <-granted
	net.Heal()
	x.unlock(mine)
	require.NoError(x.t, s.Close())
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0, 2),
		measured(telemetry.HoldDuration, end("n", "released"), 1, 0),
		measured(telemetry.HandoffDuration, after("n"), 1),
	)...)
}

// handOffBefore has a release whose answer takes longer than the event that grants the
// next request.
func handOffBefore(x *fixture) {
	s := x.open(x.store.NewClient())
	h := x.lock(x.s, "n")
	granted := x.waits(mutex.New(s, "n").Lock)
	x.net.Delay(500 * time.Millisecond)
	x.unlock(h)
	x.net.Heal()
	x.unlock(<-granted)
	require.NoError(x.t, s.Close())
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0, 0),
		measured(telemetry.HoldDuration, end("n", "released"), 0.5, 0.5),
		measured(telemetry.HandoffDuration, after("n"), 0),
	)...)
}

func handOffToReaders(x *fixture) {
	l := rwlock.New(x.s, "n")
	h, err := l.Lock(x.t.Context())
	require.NoError(x.t, err)
	first, second := x.waits(l.RLock), x.waits(l.RLock)
	time.Sleep(5 * time.Second)
	x.unlock(h)
	x.unlock(<-first, <-second)
	v := telemetry.Values{Name: "n", Kind: "rwlock", Mode: "exclusive", Outcome: "granted"}
	reads, held, read := v, v, v
	reads.Mode = "shared"
	held.Outcome, held.End = "", "released"
	read.Mode, read.Outcome, read.End = "shared", "", "released"
	x.shows(x.live(
		measured(telemetry.AcquireDuration, v, 0), measured(telemetry.AcquireDuration, reads, 5, 5),
		measured(telemetry.HoldDuration, held, 5), measured(telemetry.HoldDuration, read, 0, 0),
		measured(telemetry.HandoffDuration, after("n"), 0, 0),
	)...)
}

// handOffOfSeveral has a hold of two locks before and behind one of a single lock.
func handOffOfSeveral(x *fixture) {
	all := func(ctx context.Context) (*session.Hold, error) {
		return mutex.LockAll(ctx, mutex.New(x.s, "a"), mutex.New(x.s, "b"))
	}
	both, err := all(x.t.Context())
	require.NoError(x.t, err)
	single := x.waits(mutex.New(x.s, "b").Lock)
	again := x.waits(all)
	x.unlock(both)
	x.unlock(<-single)
	x.unlock(<-again)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("a, b", "granted"), 0, 0), measured(telemetry.HoldDuration, end("a, b", "released"), 0, 0),
		measured(telemetry.AcquireDuration, outcome("b", "granted"), 0), measured(telemetry.HoldDuration, end("b", "released"), 0),
		measured(telemetry.HandoffDuration, after("a, b"), 0), measured(telemetry.HandoffDuration, after("b"), 0),
	)...)
}

func foreignRelease(x *fixture) {
	h := x.lock(x.other, "n")
	granted := x.waits(mutex.New(x.s, "n").Lock)
	x.unlock(h)
	x.unlock(<-granted)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		measured(telemetry.HoldDuration, end("n", "released"), 0),
	)...)
}

func taken(x *fixture) {
	h := x.lock(x.other, "n")
	_, err := mutex.New(x.s, "n").TryLock(x.t.Context())
	require.ErrorIs(x.t, err, session.ErrNotAcquired)
	x.shows(x.live(measured(telemetry.AcquireDuration, outcome("n", "taken"), 0))...)
	x.unlock(h)
}

func gaveUp(x *fixture) {
	h := x.lock(x.other, "n")
	ctx, cancel := context.WithTimeout(x.t.Context(), 3*time.Second)
	defer cancel()
	_, err := mutex.New(x.s, "n").Lock(ctx)
	require.ErrorIs(x.t, err, context.DeadlineExceeded)
	x.shows(x.live(measured(telemetry.AcquireDuration, outcome("n", "gave_up"), 3))...)
	x.unlock(h)
}

func refused(x *fixture) {
	_, err := mutex.NewWith(x.s, "n", mutex.Options{MinHold: -1}).Lock(x.t.Context())
	require.ErrorIs(x.t, err, session.ErrInvalidOptions)
	h := x.lock(x.s, "n")
	_, err = mutex.New(x.s, "n").Lock(h.Context())
	require.ErrorIs(x.t, err, session.ErrReentrant)
	x.unlock(h)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "refused"), 0, 0),
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		measured(telemetry.HoldDuration, end("n", "released"), 0),
	)...)
}

func pending(x *fixture) {
	s := x.open(x.store.NewClient())
	h := x.lock(x.s, "n")
	granted := x.waits(mutex.New(s, "n").Lock)
	x.net.Cut(fault.Requests)
	require.ErrorIs(x.t, h.Unlock(), session.ErrReleasePending)
	x.shows(
		counted(telemetry.Sessions, 2, telemetry.Values{}),
		counted(telemetry.SessionSlack, (x.window-time.Second).Seconds(), telemetry.Values{}),
		counted(telemetry.Waiters, 1, of("n")),
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		measured(telemetry.HoldDuration, end("n", "pending"), 1),
	)
	x.net.Heal()
	mine := <-granted
	waited := time.Since(x.began).Seconds()
	x.unlock(mine)
	require.NoError(x.t, s.Close())
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0, waited),
		measured(telemetry.HoldDuration, end("n", "pending"), 1), measured(telemetry.HoldDuration, end("n", "released"), 0),
	)...)
}

func rejoin(x *fixture) {
	h := x.lock(x.other, "n")
	granted := x.waits(mutex.New(x.s, "n").Lock)
	entries, err := mutex.New(x.other, "n").Queue(x.t.Context())
	require.NoError(x.t, err)
	require.Len(x.t, entries, 2)
	require.True(x.t, x.store.Delete("n", entries[1].Key))
	synctest.Wait()
	x.shows(append(x.renewedNow(0), counted(telemetry.Waiters, 1, of("n")), counted(telemetry.Rejoins, 1, of("n")))...)
	x.unlock(h)
	x.unlock(<-granted)
}

func several(x *fixture) {
	a, b := mutex.New(x.s, "a"), mutex.New(x.s, "b")
	h, err := mutex.LockAll(x.t.Context(), a, b)
	require.NoError(x.t, err)
	time.Sleep(time.Second)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("a, b", "granted"), 0),
		counted(telemetry.Holds, 1, of("a, b")),
	)...)
	x.unlock(h)
	_, err = mutex.LockAll(x.t.Context(), a)
	require.ErrorIs(x.t, err, session.ErrInvalidOptions)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("a, b", "granted"), 0),
		measured(telemetry.HoldDuration, end("a, b", "released"), 1),
	)...)
}

// permits has a request that waits behind another one, and holds at the same time as that:
// its end grants nothing.
func permits(x *fixture) {
	m := semaphore.New(x.s, "n", 2)
	one := func(ctx context.Context) (*session.Hold, error) { return m.Acquire(ctx, 1) }
	first, err := one(x.t.Context())
	require.NoError(x.t, err)
	second, err := one(x.t.Context())
	require.NoError(x.t, err)
	third := x.waits(one)
	fourth := x.waits(one)
	v := telemetry.Values{Name: "n", Kind: "semaphore"}
	request := telemetry.Values{Name: "n", Kind: "semaphore", Mode: "weighted", Outcome: "granted"}
	x.shows(x.live(
		measured(telemetry.AcquireDuration, request, 0, 0),
		counted(telemetry.Holds, 2, v), counted(telemetry.Waiters, 2, v),
	)...)
	x.unlock(first)
	h := <-third
	x.unlock(second)
	x.unlock(<-fourth, h)
	held := request
	held.Outcome, held.End = "", "released"
	x.shows(x.live(
		measured(telemetry.AcquireDuration, request, 0, 0, 0, 0), measured(telemetry.HoldDuration, held, 0, 0, 0, 0),
	)...)
}

func kinds(x *fixture) {
	leads, err := election.New(x.s, "n").Campaign(x.t.Context(), "me")
	require.NoError(x.t, err)
	reads, err := rwlock.New(x.s, "r").RLock(x.t.Context())
	require.NoError(x.t, err)
	leader, reader := telemetry.Values{Name: "n", Kind: "election"}, telemetry.Values{Name: "r", Kind: "rwlock"}
	campaign := telemetry.Values{Name: "n", Kind: "election", Mode: "exclusive", Outcome: "granted"}
	read := telemetry.Values{Name: "r", Kind: "rwlock", Mode: "shared", Outcome: "granted"}
	x.shows(x.live(
		measured(telemetry.AcquireDuration, campaign, 0), counted(telemetry.Holds, 1, leader),
		measured(telemetry.AcquireDuration, read, 0), counted(telemetry.Holds, 1, reader),
	)...)
	x.unlock(leads, reads)
}

func reentrant(x *fixture) {
	m := mutex.NewWith(x.s, "n", mutex.Options{Reentrant: true})
	h, err := m.Lock(x.t.Context())
	require.NoError(x.t, err)
	inner, err := m.Lock(h.Context())
	require.NoError(x.t, err)
	x.unlock(h)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		counted(telemetry.Holds, 1, of("n")),
	)...)
	x.unlock(inner)
	assert.ErrorIs(x.t, inner.Unlock(), session.ErrUnlocked)
	x.shows(x.live(
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		measured(telemetry.HoldDuration, end("n", "released"), 0),
	)...)
}
