package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
)

// costing runs what drivers do, and holds the requests that it takes against
// what it may cost.
type costing struct {
	t *testing.T
	w *wire
	o *owner
}

func (c *costing) costs(want int, what string, call func() error) {
	c.t.Helper()
	c.w.forget()
	require.NoError(c.t, call(), what)
	got := c.w.count(counts)
	assert.Equal(c.t, want, got, "requests of %s", what)
}

// join is a join that may cost so much.
func (c *costing) join(want int, what string, req driver.JoinRequest) (j driver.Joined) {
	c.t.Helper()
	c.costs(want, what, func() (err error) {
		j, err = c.o.Join(recipetest.Bounded(c.t), req)
		return err
	})
	return j
}

func (c *costing) leave(want int, what string, req driver.LeaveRequest) {
	c.t.Helper()
	c.costs(want, what, func() error {
		_, err := c.o.Leave(recipetest.Bounded(c.t), req)
		return err
	})
}

func newCosting(t *testing.T) *costing {
	e, root := shared(t)
	c := &costing{t: t, w: &wire{}}
	c.o = drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: c.w.dial}, e.Endpoints()...)
	return c
}

// TestWhatIsAskedForWithAJoinCostsNoFurtherRequest, once the line was used.
func TestWhatIsAskedForWithAJoinCostsNoFurtherRequest(t *testing.T) {
	c := newCosting(t)
	for name, req := range map[string]driver.JoinRequest{
		"a mutex":                 {},
		"a writer":                {Kin: driver.KinReadWrite},
		"a reader":                {Kin: driver.KinReadWrite, Mode: driver.Shared},
		"a semaphore":             {Mode: driver.Weighted, Weight: 1, Limit: 7},
		"a semaphore of any size": {Mode: driver.Weighted, Weight: 1, Limit: 7, Follow: true},
		"a candidate":             {Kin: driver.KinLatch, Value: []byte("web-2")},
		"a mutex with a ledger":   {Ledger: true},
		"an election's ledger":    {Value: []byte("web-2"), Ledger: true},
	} {
		req.Line = name
		j, err := c.o.Join(recipetest.Bounded(t), req)
		require.NoError(t, err)
		_, err = c.o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref, Clean: true})
		require.NoError(t, err)
		j = c.join(1, "to join "+name, req)
		assert.Equal(t, req.Ledger, j.Entered, name)
		c.leave(1, "to leave "+name, driver.LeaveRequest{Ref: j.Entry.Ref, Clean: true, Held: req.Mode == driver.Exclusive})
	}
}

// TestALimitThatASessionDoesNotKnowYetCostsNothing: it is checked, not read.
func TestALimitThatASessionDoesNotKnowYetCostsNothing(t *testing.T) {
	e, root := shared(t)
	first := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	req := driver.JoinRequest{Line: "gpu", Mode: driver.Weighted, Weight: 1, Limit: 8}
	_, err := first.Join(recipetest.Bounded(t), req)
	require.NoError(t, err)
	c := &costing{t: t, w: &wire{}}
	c.o = drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: c.w.dial}, e.Endpoints()...)
	c.join(2, "the first join, behind another", req)

	require.NoError(t, first.SetLimit(recipetest.Bounded(t), "gpu", 9))
	req.Follow = true
	j := c.join(4, "a join that finds another limit: read it, join, look", req)
	assert.EqualValues(t, 9, j.Limit)
	j = c.join(2, "the next one", req)
	assert.EqualValues(t, 9, j.Limit)
}

// TestWhatHoldersDoCostsLittle: each change is one transaction.
func TestWhatHoldersDoCostsLittle(t *testing.T) {
	c := newCosting(t)
	ctx := recipetest.Bounded(t)
	gpu := driver.JoinRequest{Line: "gpu", Mode: driver.Weighted, Weight: 1, Limit: 8}
	for i, admit := range []int{3, 1} { // the first makes the folder
		j, err := c.o.Join(ctx, gpu)
		require.NoError(t, err)
		c.costs(admit, fmt.Sprint("to admit ", i), func() error { return c.o.Admit(ctx, j.Entry.Ref) })
		if i > 0 {
			c.costs(3, "to claim: a Sync, a list, a create", func() error {
				n, err := c.o.Claim(ctx, j.Entry.Ref)
				assert.Equal(t, i, n.N)
				return err
			})
		} else {
			_, err := c.o.Claim(ctx, j.Entry.Ref)
			require.NoError(t, err)
		}
		defer c.leave(1, "to leave with a number", driver.LeaveRequest{Ref: j.Entry.Ref})
	}
	c.costs(3, "a look at line, holders and limit", func() error {
		v, err := c.o.Look(ctx, driver.LookRequest{Line: "gpu", Upto: 1 << 40, Limit: true})
		assert.EqualValues(t, 8, v.Limit)
		return err
	})

	w, err := c.o.Join(ctx, driver.JoinRequest{Line: "cfg", Kin: driver.KinReadWrite})
	require.NoError(t, err)
	c.costs(1, "to share", func() error { _, err := c.o.Share(ctx, w.Entry.Ref); return err })

	v, err := c.o.Join(ctx, driver.JoinRequest{Line: "leader", Value: []byte("a")})
	require.NoError(t, err)
	c.costs(1, "to write a value", func() error { return c.o.Write(ctx, v.Entry.Ref, []byte("b")) })

	h, err := c.o.Join(ctx, driver.JoinRequest{Line: "settle", Ledger: true})
	require.NoError(t, err)
	_, err = c.o.Enter(ctx, h.Entry.Ref)
	require.NoError(t, err)
	c.leave(1, "to give back cleanly", driver.LeaveRequest{Ref: h.Entry.Ref, Clean: true})
	h, err = c.o.Join(ctx, driver.JoinRequest{Line: "settle"})
	require.NoError(t, err)
	c.costs(1, "to enter a clean ledger", func() error { _, err := c.o.Enter(ctx, h.Entry.Ref); return err })
}

// TestManyLinesAreOneTransaction to join, and one to leave.
func TestManyLinesAreOneTransaction(t *testing.T) {
	c := newCosting(t)
	var reqs []driver.JoinRequest
	for i := range c.o.backend.Profile().MaxAll {
		reqs = append(reqs, driver.JoinRequest{Line: fmt.Sprint("many/", i)})
	}
	var joined []driver.Joined
	join := func() (err error) {
		joined, err = c.o.JoinAll(recipetest.Bounded(t), reqs)
		return err
	}
	leave := func() error {
		var all []driver.LeaveRequest
		for _, j := range joined {
			assert.Zero(t, j.Ahead)
			assert.Equal(t, joined[0].Entry.Token, j.Entry.Token)
			all = append(all, driver.LeaveRequest{Ref: j.Entry.Ref, Held: true})
		}
		_, err := c.o.LeaveAll(recipetest.Bounded(t), all)
		return err
	}
	require.NoError(t, join())
	require.NoError(t, leave())
	c.costs(1, "to join all", join)
	c.costs(1, "to leave all", leave)
}

// TestALookAtALimitIsOneRoundTrip: the answer to the first request is held back
// until all have been sent, the line's before the limit's.
func TestALookAtALimitIsOneRoundTrip(t *testing.T) {
	e, root := shared(t)
	var mu sync.Mutex
	var asked []string
	var on atomic.Bool
	all := make(chan struct{})
	w := &wire{after: func(f zkframe.Frame) bool {
		if on.Load() && f.Op() == zkframe.OpGetChildren2 {
			mu.Lock()
			defer mu.Unlock()
			if asked = append(asked, f.Path()); len(asked) == 3 {
				close(all)
			}
		}
		return true
	}, reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		if on.Load() && request.Op() == zkframe.OpGetChildren2 {
			recipetest.Wait(t, all, "all requests of the look")
		}
		return f, true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	j, err := o.Join(recipetest.Bounded(t), gpu(4))
	require.NoError(t, err)
	require.NoError(t, o.Admit(recipetest.Bounded(t), j.Entry.Ref))
	on.Store(true)
	v, err := o.Look(recipetest.Bounded(t), driver.LookRequest{Line: "gpu", Upto: j.Entry.Place, Limit: true})
	require.NoError(t, err)

	assert.EqualValues(t, 4, v.Limit)
	require.Len(t, v.Entries, 1)
	assert.True(t, v.Entries[0].Admitted)
	require.Len(t, asked, 3)
	assert.Equal(t, root+"/gpu", asked[0])
}

// TestTheFirstEntryCostsTheSameInALongLine: what the session reads to learn who
// leads does not depend on how many candidates there are.
func TestTheFirstEntryCostsTheSameInALongLine(t *testing.T) {
	e, root := shared(t)
	conn, w := e.Client(t), &wire{}
	crowd := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	p.open(t, e.Endpoints()...)
	leads, err := election.New(crowd.Session, "x").Campaign(recipetest.Bounded(t), "value 1")
	require.NoError(t, err)
	lined(t, conn, root+"/%beside/x/held", 1)
	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	var waiting sync.WaitGroup
	costs := map[int]int{}
	candidates := 1
	for _, n := range []int{2, 50} {
		for ; candidates < n; candidates++ {
			waiting.Go(func() {
				_, err := election.New(crowd.Session, "x").Campaign(ctx, "a candidate")
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		lined(t, conn, root+"/x", n)
		w.forget()
		leader, err := election.New(p.Session, "x").Leader(recipetest.Bounded(t))
		require.NoError(t, err)
		assert.Equal(t, "value 1", leader.Value)
		assert.Equal(t, leads.Token(), leader.Token)
		assert.False(t, leader.Entry.Granted.IsZero())
		assert.NotEmpty(t, leader.Entry.Host)
		costs[n] = w.count(counts)
	}
	cancel()
	waiting.Wait()
	recipetest.Unlock(t, leads)

	assert.Equal(t, costs[2], costs[50], "requests of Leader with 2 and with 50 candidates")
	assert.LessOrEqual(t, costs[50], 6, "a Sync, the line, the ledger, the records, the entry, what it says of itself")
}
