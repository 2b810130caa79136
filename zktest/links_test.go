package zktest

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greeting is the first message of member 3 on an election connection.
func greeting(addr string) []byte {
	version := int64(-65536)
	b := binary.BigEndian.AppendUint64(nil, uint64(version))
	b = binary.BigEndian.AppendUint64(b, 3)
	return appendString(b, addr)
}

func TestCallBackChangesTheAddressInAGreeting(t *testing.T) {
	rewrite := callBack(func() string { return "127.0.0.1:7" })
	message := append(greeting("127.0.0.1:22521"), "vote"...)

	for n := range message[:len(message)-len("vote")] {
		_, ok := rewrite(message[:n])
		require.False(t, ok, "%d bytes are not all", n)
	}
	got, ok := rewrite(message)
	require.True(t, ok)
	assert.Equal(t, append(greeting("127.0.0.1:7"), "vote"...), got)
}

func TestCallBackLeavesAGreetingWithoutAddress(t *testing.T) {
	old := binary.BigEndian.AppendUint64(nil, 3)

	got, ok := callBack(nil)(old)

	require.True(t, ok)
	assert.Equal(t, old, got)
}

func TestCutsAddUp(t *testing.T) {
	opts, err := (&Options{Members: 3, Proxied: true}).complete()
	require.NoError(t, err)
	e := newEnsemble(opts, "", "")
	require.NoError(t, e.prepare(t.Context()))
	defer e.Close()
	severed := func() (pairs [][2]int) {
		for a := range 3 {
			for b := a + 1; b < 3; b++ {
				assert.Equal(t, e.severed(a, b), e.severed(b, a))
				if e.severed(a, b) {
					pairs = append(pairs, [2]int{a, b})
				}
			}
		}
		return pairs
	}

	e.Member(1).CutFrom(0)
	assert.Equal(t, [][2]int{{0, 1}}, severed())
	e.Member(1).CutPeers()
	assert.Equal(t, [][2]int{{0, 1}, {1, 2}}, severed())
	e.Member(2).CutPeers()
	e.Member(1).HealPeers()
	assert.Equal(t, [][2]int{{0, 1}, {0, 2}, {1, 2}}, severed())
	e.Member(2).HealPeers()
	assert.Equal(t, [][2]int{{0, 1}}, severed())
	e.Member(0).HealFrom(1)
	assert.Empty(t, severed())

	assert.Panics(t, func() { e.Member(1).CutFrom(1) })
	assert.Panics(t, func() { e.Member(1).DelayTo(1, 0) })
}

func TestLeadingMemberIsChosen(t *testing.T) {
	const old, young = 0x1_0000_0005, 0x2_0000_0000
	silent, follower := status{}, status{"follower", old}
	for _, c := range []struct {
		name    string
		answers []status
		want    int
	}{
		{"one", []status{{"standalone", 0}}, 0},
		{"one that does not answer", []status{silent}, -1},
		{"three", []status{follower, follower, {"leader", old}}, 2},
		{"one of three dead", []status{follower, silent, {"leader", old}}, 2},
		{"left alone", []status{silent, silent, {"leader", old}}, -1},
		{"no leader", []status{follower, follower, silent}, -1},
		{"old one cut off", []status{{"leader", old}, {"leader", young}, follower}, 1},
		{"old one cut off, other way round", []status{{"leader", young}, {"leader", old}, follower}, 0},
	} {
		assert.Equal(t, c.want, leading(c.answers), c.name)
	}
}
