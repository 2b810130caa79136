package zookeeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestDriverIsNotBehindItsFollower: what a fresh Read, Names and a Join with IfEmpty
// return is not older than the call, whichever member they ask.
func TestDriverIsNotBehindItsFollower(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Tick: zkTick})
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	follower := (leader + 1) % e.Len()
	at := func(member int) *owner {
		return drive(t, 5*time.Second, zkbackend.Options{TickTime: zkTick}, e.Member(member).Endpoint())
	}
	one, late := at(leader), at(follower)
	first := one.join(t, "x").Entry.Ref
	e.Member(leader).DelayTo(follower, 200*time.Millisecond)
	defer e.Member(leader).DelayTo(follower, 0)

	second := one.join(t, "x").Entry.Ref
	queue := late.queue(t, "x").Entries
	require.Len(t, queue, 2)
	assert.Equal(t, []driver.Ref{first, second}, []driver.Ref{queue[0].Ref, queue[1].Ref})

	one.join(t, "y")
	names, err := late.Names(recipetest.Bounded(t), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"x", "y"}, names)

	_, err = one.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: first}, driver.LeaveRequest{Ref: second})
	require.NoError(t, err)
	late.joinWith(t, driver.JoinRequest{Queue: "x", IfEmpty: true})
}

func TestRepliesAreCutBehindTheRequest(t *testing.T) {
	t.Parallel()
	e, _ := shared(t)
	s := zkHarness(e, zkbackend.LayoutCurator).Service(t)
	client := s.Client(t)
	both.RepliesAreCutBehindTheRequest(t, s, client, client.(*zkClient).Reset) //nolint:forcetypeassert // see zkService
}
