package zookeeper

import (
	"context"
	"fmt"
	"strconv"
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

// costing runs what drivers do, and compares the number of requests with the expected one.
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
	c.costs(want, what, func() error {
		js, err := c.o.Join(recipetest.Bounded(c.t), req)
		if err == nil {
			j = js[0]
		}
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

// TestRecordsOfAJoinCostNoFurtherRequest, once the queue was used.
func TestRecordsOfAJoinCostNoFurtherRequest(t *testing.T) {
	c := newCosting(t)
	limit := driver.Op{Record: "limit", If: driver.EqualOrAbsent([]byte("7")), Value: []byte("7")}
	follow := limit
	follow.Optional = true
	ledger := driver.Op{Record: "ledger", If: driver.Absent(), Value: []byte("mine"), Optional: true}
	erase := driver.Op{Record: "ledger", If: driver.Equal([]byte("mine")), Optional: true}
	for name, req := range map[string]driver.JoinRequest{
		"a mutex":                 {},
		"a writer":                {Family: driver.FamilyReadWrite},
		"a reader":                {Family: driver.FamilyReadWrite, Mode: driver.Shared},
		"a semaphore":             {Mode: driver.Weighted, Weight: 1, Ops: []driver.Op{limit}, Records: []string{"limit"}},
		"a semaphore of any size": {Mode: driver.Weighted, Weight: 1, Ops: []driver.Op{follow}, Records: []string{"limit"}},
		"a candidate":             {Family: driver.FamilyLatch, Data: []byte("web-2"), Valued: true, Detail: []byte("{}")},
		"a mutex with a ledger":   {Ops: []driver.Op{ledger}},
		"an election's ledger":    {Data: []byte("web-2"), Valued: true, Detail: []byte("{}"), Ops: []driver.Op{ledger}},
	} {
		req.Queue = name
		leave := driver.LeaveRequest{First: true}
		if len(req.Ops) > 0 && req.Ops[0].Record == "ledger" {
			leave.Ops = []driver.Op{erase}
		}
		leave.Ref = c.o.joinWith(t, req).Entry.Ref
		_, err := c.o.Leave(recipetest.Bounded(t), leave)
		require.NoError(t, err)
		j := c.join(1, "to join "+name, req)
		for _, r := range j.Ops {
			assert.True(t, r.Done, name)
		}
		leave.Ref = j.Entry.Ref
		c.leave(1, "to leave "+name, leave)
	}
}

// TestALimitIsReadOnce: a session that has not seen the limit yet reads it before it joins. Before the
// first join it reads the folder too.
func TestALimitIsReadOnce(t *testing.T) {
	e, root := shared(t)
	first := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	first.joinWith(t, gpu("8"))
	c := &costing{t: t, w: &wire{}}
	c.o = drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: c.w.dial}, e.Endpoints()...)
	req := gpu("8")
	req.Records = []string{"limit"}
	c.join(5, "the first join, behind another: the folder, the limit, the join, the queue and the limit", req)
	c.join(3, "the next one", req)

	was := driver.Op{Record: "limit", If: driver.Equal([]byte("8")), Value: []byte("9")}
	_, err := first.Update(recipetest.Bounded(t), driver.UpdateRequest{Queue: "gpu", Ops: []driver.Op{was}})
	require.NoError(t, err)
	req.Ops[0].Optional = true
	j := c.join(5, "a join that finds another limit: read it, join without, read the queue and the limit", req)
	assert.Equal(t, "9", string(j.View.Records["limit"].Value))
	j = c.join(4, "the next one", req)
	assert.Equal(t, "9", string(j.View.Records["limit"].Value))
}

// TestWhatHoldersDoCostsLittle: each change is one transaction.
func TestWhatHoldersDoCostsLittle(t *testing.T) {
	c := newCosting(t)
	ctx := recipetest.Bounded(t)
	update := func(want int, what string, ref driver.Ref, req driver.UpdateRequest) {
		t.Helper()
		req.Queue, req.Entry = ref.Queue, ref
		c.costs(want, what, func() error {
			_, err := c.o.Update(ctx, req)
			return err
		})
	}
	c.o.admit(t, c.o.joinWith(t, gpu("8")).Entry.Ref) // which makes the folder
	for i := range 2 {
		ref := c.o.joinWith(t, gpu("8")).Entry.Ref
		update(1, fmt.Sprint("to admit ", i), ref, driver.UpdateRequest{Marks: driver.MarkAdmitted})
		update(1, "to take a slot", ref, driver.UpdateRequest{Ops: []driver.Op{slot(strconv.Itoa(i))}})
		free := slot(strconv.Itoa(i))
		free.If, free.Value = driver.Equal(free.Value), nil
		defer c.leave(1, "to leave with a slot", driver.LeaveRequest{Ref: ref, Ops: []driver.Op{free}})
	}
	c.costs(3, "a read of queue, holders and limit", func() error {
		v, err := c.o.Read(ctx, driver.ReadRequest{Queue: "gpu", Upto: 1 << 40, Marks: true, Records: []string{"limit"}})
		assert.Equal(t, "8", string(v.Records["limit"].Value))
		return err
	})

	w := c.o.joinWith(t, driver.JoinRequest{Queue: "cfg", Family: driver.FamilyReadWrite}).Entry.Ref
	update(1, "to become a reader", w, driver.UpdateRequest{Marks: driver.MarkShared})

	v := c.o.joinWith(t, driver.JoinRequest{Queue: "leader", Data: []byte("a"), Valued: true, Detail: []byte("{}")}).Entry.Ref
	update(1, "to write a value", v, driver.UpdateRequest{Data: []byte("b")})
	update(1, "to write its detail", v, driver.UpdateRequest{Detail: []byte(`{"v":1}`)})

	ledger := driver.Op{Record: "ledger", If: driver.Absent(), Value: []byte("mine")}
	erase := driver.Op{Record: "ledger", If: driver.Equal([]byte("mine"))}
	h := c.o.joinWith(t, driver.JoinRequest{Queue: "settle", Ops: []driver.Op{ledger}}).Entry.Ref
	c.leave(1, "to release cleanly", driver.LeaveRequest{Ref: h, Ops: []driver.Op{erase}})
	h = c.o.joinWith(t, driver.JoinRequest{Queue: "settle"}).Entry.Ref
	update(1, "to enter a clean ledger", h, driver.UpdateRequest{Ops: []driver.Op{ledger}})
}

// TestManyQueuesAreOneTransaction to join, and one to leave.
func TestManyQueuesAreOneTransaction(t *testing.T) {
	c := newCosting(t)
	var reqs []driver.JoinRequest
	for i := range c.o.backend.Info().MaxJoin {
		reqs = append(reqs, driver.JoinRequest{Queue: fmt.Sprint("many/", i)})
	}
	var joined []driver.Joined
	join := func() (err error) {
		joined, err = c.o.Join(recipetest.Bounded(t), reqs...)
		return err
	}
	leave := func() error {
		var all []driver.LeaveRequest
		for _, j := range joined {
			assert.Zero(t, j.View.Count)
			assert.Equal(t, joined[0].Entry.Token, j.Entry.Token)
			all = append(all, driver.LeaveRequest{Ref: j.Entry.Ref, First: true})
		}
		_, err := c.o.Leave(recipetest.Bounded(t), all...)
		return err
	}
	require.NoError(t, join())
	require.NoError(t, leave())
	c.costs(1, "to join all", join)
	c.costs(1, "to leave all", leave)
}

// TestAReadWithALimitIsOneRoundTrip: the answer to the first request is held back until
// all have been sent, the queue's before the limit's.
func TestAReadWithALimitIsOneRoundTrip(t *testing.T) {
	e, root := shared(t)
	var mu sync.Mutex
	var asked []string
	var on atomic.Bool
	all := make(chan struct{})
	reads := func(f zkframe.Frame) bool {
		return on.Load() && (f.Op() == zkframe.OpGetChildren2 || f.Op() == zkframe.OpGetData)
	}
	w := &wire{after: func(f zkframe.Frame) bool {
		if reads(f) {
			mu.Lock()
			defer mu.Unlock()
			if asked = append(asked, f.Path()); len(asked) == 3 {
				close(all)
			}
		}
		return true
	}, reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		if reads(request) {
			recipetest.Wait(t, all, "all requests of the read")
		}
		return f, true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	ref := o.joinWith(t, gpu("4")).Entry.Ref
	o.admit(t, ref)
	on.Store(true)
	v, err := o.Read(recipetest.Bounded(t), driver.ReadRequest{Queue: "gpu", Upto: ref.Place, Marks: true, Records: []string{"limit"}})
	require.NoError(t, err)

	assert.Equal(t, "4", string(v.Records["limit"].Value))
	require.Len(t, v.Entries, 1)
	assert.Equal(t, driver.MarkAdmitted, v.Entries[0].Marks)
	side := root + "/%v2/gpu"
	assert.Equal(t, []string{root + "/gpu", side + "/holders", side + "/records/limit"}, asked)
}

// TestTheFirstEntryCostsTheSameInALongQueue: what the session reads to learn which
// candidate leads does not depend on how many candidates there are.
func TestTheFirstEntryCostsTheSameInALongQueue(t *testing.T) {
	e, root := shared(t)
	conn, w := e.Client(t), &wire{}
	crowd := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	p.open(t, e.Endpoints()...)
	leads, err := election.New(crowd.Session, "x").Campaign(recipetest.Bounded(t), "value 1")
	require.NoError(t, err)
	awaitGranted(t, p, "x")
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
		awaitEntries(t, conn, root+"/x", n)
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
	assert.LessOrEqual(t, costs[50], 6, "a Sync, the queue, the ledger, the records, the entry, its detail")
}
