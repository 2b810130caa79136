package stand_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/stand"
)

func TestParseKind(t *testing.T) {
	for _, c := range []struct {
		text    string
		members int
		fsync   bool
		rtt     time.Duration
	}{
		{"single", 1, false, 0},
		{"single-fsync", 1, true, 0},
		{"two-fsync", 2, true, 0},
		{" three", 3, false, 0},
		{"three-fsync+4ms", 3, true, 4 * time.Millisecond},
	} {
		k, err := stand.ParseKind(c.text)
		require.NoError(t, err)

		assert.Equal(t, c.members, k.Members(), "%s", k)
		assert.Equal(t, c.fsync, k.Fsync(), "%s", k)
		assert.Equal(t, c.rtt, k.RTT(), "%s", k)
	}
	assert.Equal(t, stand.Kind("single+2ms"), stand.Single.Far(2*time.Millisecond))
	for _, bad := range []string{"", "five", "single+", "single+0s", "single+soon"} {
		_, err := stand.ParseKind(bad)
		require.Error(t, err, "%q", bad)
	}
}

type noLock struct{}

func (noLock) Lock(context.Context, string) (func() error, error) { return nil, nil }

func TestTeamSharesASessionOnlyIfAsked(t *testing.T) {
	for _, share := range []bool{true, false} {
		ended := make(chan int, 10)
		p := stand.Parts{
			Tallies: []*stand.Tally{stand.NewTally(nil)},
			Session: func(i int) (stand.Contender, func() error, error) {
				return noLock{}, func() error { ended <- i; return nil }, nil
			},
		}
		team, err := stand.NewTeam(stand.Contestant{}, 3, share, p)
		require.NoError(t, err)
		assert.NotContains(t, team.Contenders, nil)

		require.NoError(t, team.StopWaiters(nil))
		require.NoError(t, team.Close())
		assert.Len(t, ended, map[bool]int{true: 1, false: 3}[share], "each session ends once")
	}
}

func TestStopWaitersUsesTheStopMode(t *testing.T) {
	for mode, want := range map[stand.StopMode]string{stand.StopByClose: "end", stand.StopByContext: "cancel", stand.StopByTurn: ""} {
		did := ""
		team, err := stand.NewTeam(stand.Contestant{}, 1, true, stand.Parts{
			Tallies: []*stand.Tally{stand.NewTally(nil)},
			Session: func(int) (stand.Contender, func() error, error) {
				return noLock{}, func() error { did += "end"; return nil }, nil
			},
			Stop: mode,
		})
		require.NoError(t, err)

		require.NoError(t, team.StopWaiters(func() { did += "cancel" }))
		assert.Equal(t, want, did)
	}
}

func TestFailedTeamLeavesNothingOpen(t *testing.T) {
	shut := false
	p := stand.Parts{
		Tallies: []*stand.Tally{stand.NewTally(nil)},
		Session: func(int) (stand.Contender, func() error, error) { return nil, nil, errors.New("no") },
		Shut:    func() error { shut = true; return nil },
	}

	_, err := stand.NewTeam(stand.Contestant{}, 2, false, p)

	require.EqualError(t, err, "no")
	assert.True(t, shut)
}

func TestTallyDoesNotCountKeepalives(t *testing.T) {
	kinds := []string{"put", "get"}
	a, b := stand.NewTally(kinds), stand.NewTally(kinds, 1)
	team, err := stand.NewTeam(stand.Contestant{}, 0, false, stand.Parts{Tallies: []*stand.Tally{a, b}})
	require.NoError(t, err)
	a.Request(0)
	before := team.Sent()

	a.Request(1)
	b.Request(1)
	b.Request(stand.Keepalive)
	b.Event(3)
	b.Moved(7)

	got := team.Sent().Since(before)
	assert.Equal(t, stand.Counts{Kinds: []string{"put", "get"}, Sent: []int64{0, 2}, Requests: 2, Events: 3, Bytes: 7}, got)
	assert.EqualValues(t, 2, a.Prompted())
	assert.Zero(t, b.Prompted(), "it is of a periodic kind")
}

func TestRequestsUnderWayAtOnceAreOneRoundTrip(t *testing.T) {
	c := stand.NewTally(nil)
	c.Begin()
	c.Begin()
	c.End()
	assert.True(t, c.Busy())
	c.End()
	assert.False(t, c.Busy())
	assert.EqualValues(t, 1, c.Trips())

	c.Begin()
	assert.EqualValues(t, 2, c.Trips())
}
