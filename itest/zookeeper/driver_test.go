package zookeeper

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestZooKeeperDriverIsNotBehindItsFollower: what a call says of a line was so
// at some moment after it was called, whichever member it asks.
func TestZooKeeperDriverIsNotBehindItsFollower(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Tick: zkTick})
	ctx, cancel := context.WithTimeout(t.Context(), recipetest.Patience)
	defer cancel()
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	follower := (leader + 1) % e.Len()
	at := func(member int) (driver.Backend, driver.Session) {
		b, err := zkbackend.NewBackend([]string{e.Member(member).Endpoint()}, &zkbackend.Options{TickTime: zkTick})
		require.NoError(t, err)
		s, err := b.Open(ctx, driver.Config{
			TTL: 5 * time.Second, Window: 4 * time.Second, Logger: slog.New(slog.DiscardHandler),
			Margin: func(ttl time.Duration) time.Duration { return ttl / 5 },
			Proof:  func(driver.Instant, time.Duration) {}, Gone: func(error) {},
		})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, s.Close(context.Background()))
			assert.NoError(t, b.Close())
		})
		return b, s
	}
	_, one := at(leader)
	late, other := at(follower)
	first, err := one.Join(ctx, driver.JoinRequest{Line: "x"})
	require.NoError(t, err)
	e.Member(leader).DelayTo(follower, 200*time.Millisecond)
	defer e.Member(leader).DelayTo(follower, 0)

	second, err := one.Join(ctx, driver.JoinRequest{Line: "x"})
	require.NoError(t, err)
	line, err := late.List(ctx, "x", 0)
	require.NoError(t, err)
	require.Len(t, line, 2)
	assert.Equal(t, first.Entry.Ref, line[0].Ref)
	assert.Equal(t, second.Entry.Ref, line[1].Ref)

	_, err = one.Join(ctx, driver.JoinRequest{Line: "y"})
	require.NoError(t, err)
	names, err := late.Names(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"x", "y"}, names)

	for _, j := range []driver.Joined{first, second} {
		_, err = one.Leave(ctx, driver.LeaveRequest{Ref: j.Entry.Ref})
		require.NoError(t, err)
	}
	_, err = other.Join(ctx, driver.JoinRequest{Line: "x", IfEmpty: true})
	require.NoError(t, err, "everybody had left")
}
