package telemetrytest

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// sessions are the cases of sessions, and of holds that end with them.
func sessions() []testCase {
	return []testCase{
		{"ProcessWithoutASessionShowsZero", nil, unopened},
		{"CountersOfLossesBeginWithZero", nil, firsts},
		{"RenewalShowsWhatWasLeft", nil, renewals},
		{"SlackIsThatOfTheWorstSession", nil, worst},
		{"ExpiredSessionLosesItsHolds", nil, expired},
		{"EvictedHoldIsLost", nil, evicted},
		{"ClosedSessionLosesItsHoldsAndIsNotLost", nil, closed},
		{"OutageIsShownWhileItLasts", nil, outage},
		{"StoppedProcessIsShownAfterwards", nil, stopped},
	}
}

// unopened asks an exporter of which no session has been opened yet: an alert cannot see a
// series that is missing, nor that a counter has risen if it appears with that value.
func unopened(x *fixture) {
	before := x.fresh().Read()
	assert.Equal(x.t, texts([]Sample{
		counted(telemetry.Sessions, 0, telemetry.Values{}),
		counted(telemetry.SessionsLost, 0, telemetry.Values{Reason: "deadline"}),
		counted(telemetry.SessionsLost, 0, telemetry.Values{Reason: "expired"}),
	}), texts(before))
}

// firsts has a lock that loses nothing yet.
func firsts(x *fixture) {
	x.unlock(x.lock(x.s, "n"), x.lock(x.s, "m"))
	x.unlock(x.lock(x.s, "n"))
	synctest.Wait()
	var want, zero []Sample
	for _, name := range []string{"n", "m"} {
		v := of(name)
		want = append(want, counted(telemetry.Rejoins, 0, v))
		for _, v.Reason = range []string{"deadline", "expired", "deleted", "evicted"} {
			want = append(want, counted(telemetry.HoldsLost, 0, v))
		}
	}
	for _, s := range x.ex.Read() {
		if s.ID == telemetry.Rejoins || s.ID == telemetry.HoldsLost {
			zero = append(zero, s)
		}
	}
	assert.Equal(x.t, texts(want), texts(zero))
}

// renewals has answers that take ten seconds, which the deadline does not wait for.
func renewals(x *fixture) {
	left := x.window - renewal
	time.Sleep(renewal)
	x.shows(x.live(measured(telemetry.RenewalSlack, telemetry.Values{}, left.Seconds()))...)
	x.net.Delay(10 * time.Second)
	time.Sleep(renewal + 10*time.Second)
	x.shows(
		measured(telemetry.RenewalSlack, telemetry.Values{}, left.Seconds(), (left-10*time.Second).Seconds()),
		counted(telemetry.Sessions, 1, telemetry.Values{}),
		counted(telemetry.SessionSlack, (x.window-10*time.Second).Seconds(), telemetry.Values{}),
	)
	x.net.Heal()
}

func worst(x *fixture) {
	time.Sleep(10 * time.Second)
	s := x.open(x.store.NewClient())
	time.Sleep(5 * time.Second)
	x.shows(
		counted(telemetry.Sessions, 2, telemetry.Values{}),
		counted(telemetry.SessionSlack, (x.window-15*time.Second).Seconds(), telemetry.Values{}),
	)
	require.NoError(x.t, s.Close())
	x.shows(x.live()...)
}

// lossOf are the samples of a lock that was held from the start and lost.
func lossOf(reason string, held time.Duration) []Sample {
	v := of("n")
	v.Reason = reason
	return []Sample{
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		measured(telemetry.HoldDuration, end("n", "lost"), held.Seconds()),
		counted(telemetry.HoldsLost, 1, v),
	}
}

// lostSession are the samples of a session that was lost.
func lostSession(reason string) Sample {
	return counted(telemetry.SessionsLost, 1, telemetry.Values{Reason: reason})
}

// expired has a hold that ends with its entry, a moment before its session is known to
// have ended.
func expired(x *fixture) {
	h := x.lock(x.s, "n")
	require.True(x.t, x.store.Expire(h.SessionID()))
	<-h.Context().Done()
	require.ErrorIs(x.t, h.Unlock(), session.ErrLost)
	synctest.Wait()
	x.showsExactly(append(lossOf("deleted", time.Since(x.began)), lostSession("expired")))
}

func evicted(x *fixture) {
	h := x.lock(x.s, "n")
	time.Sleep(time.Second)
	entries, err := mutex.New(x.other, "n").Queue(x.t.Context())
	require.NoError(x.t, err)
	require.True(x.t, x.store.Delete("n", entries[0].Key))
	<-h.Context().Done()
	synctest.Wait()
	// A renewal has shown whether the session lives.
	x.shows(append(lossOf("deleted", time.Second), x.renewedNow(time.Second)...)...)
}

func closed(x *fixture) {
	x.lock(x.s, "n")
	time.Sleep(time.Second)
	require.NoError(x.t, x.s.Close())
	x.showsExactly(lossOf("closed", time.Second))
}

// outage has the service cut off until the deadline has passed, and longer. Reading the
// exporter takes no time meanwhile: the time is virtual and goes on only where something
// waits.
func outage(x *fixture) {
	x.lock(x.s, "n")
	x.net.Cut(fault.Both)
	time.Sleep(x.window - time.Second)
	sent := x.net.Requests()
	before := time.Now()
	x.showsExactly([]Sample{
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		counted(telemetry.Holds, 1, of("n")),
		counted(telemetry.Sessions, 1, telemetry.Values{}),
		counted(telemetry.SessionSlack, 1, telemetry.Values{}),
	})
	assert.Equal(x.t, before, time.Now(), "reading the metrics waited for the service")
	assert.Equal(x.t, sent, x.net.Requests(), "reading the metrics sent requests")
	time.Sleep(time.Second)
	synctest.Wait()
	x.showsExactly(append(lossOf("deadline", x.window), lostSession("deadline")))
	time.Sleep(time.Minute)
	x.showsExactly(append(lossOf("deadline", x.window), lostSession("deadline")))

	x.net.Heal()
	x.unlock(x.lock(x.s, "m"))
	synctest.Wait()
	ids := []telemetry.ID{telemetry.Sessions, telemetry.SessionSlack}
	for _, s := range x.ex.Read() {
		if s.Value > 0 {
			ids = slices.DeleteFunc(ids, func(id telemetry.ID) bool { return id == s.ID })
		}
	}
	assert.Empty(x.t, ids, "the next session is not shown")
}

// stopped has a process that does not run for longer than its trust window: its timers
// fire when it goes on.
func stopped(x *fixture) {
	h := x.lock(x.s, "n")
	x.net.Stall()
	time.Sleep(x.window + time.Second)
	x.showsExactly([]Sample{
		measured(telemetry.AcquireDuration, outcome("n", "granted"), 0),
		counted(telemetry.Holds, 1, of("n")),
		counted(telemetry.Sessions, 1, telemetry.Values{}),
		counted(telemetry.SessionSlack, 0, telemetry.Values{}),
	})
	x.net.Resume()
	<-h.Context().Done()
	synctest.Wait()
	x.showsExactly(append(lossOf("deadline", x.window+time.Second), lostSession("deadline")))
}
