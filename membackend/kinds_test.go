package membackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// fixture is a service of a kind with two sessions.
type fixture struct {
	st       *membackend.Store
	s, other driver.Session
}

// Each kind of service makes one freedom of the contract visible.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		o    memory.Options
		test func(t *testing.T, x *fixture)
	}{
		"first":       {memory.Options{First: true}, firstKind},
		"near":        {memory.Options{Near: true}, nearKind},
		"terse":       {memory.Options{Terse: true}, terseKind},
		"stale":       {memory.Options{Stale: time.Second}, staleKind},
		"later":       {memory.Options{Stale: time.Second, Later: true}, laterKind},
		"late armed":  {memory.Options{LateArmed: time.Second}, lateArmedKind},
		"disorder":    {memory.Options{Disorder: 3}, disorderKind},
		"spurious":    {memory.Options{Spurious: true}, spuriousKind},
		"no optional": {memory.Options{NoOptional: true}, noOptionalKind},
		"observed":    {memory.Options{Observed: true}, observedKind},
		"max TTL":     {memory.Options{MaxTTL: ttl}, maxTTLKind},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, client, s, _ := serve(t, c.o)
				other, _ := open(t, client)
				c.test(t, &fixture{st, s, other})
			})
		})
	}
}

func (x *fixture) read(t *testing.T, req driver.ReadRequest) driver.View {
	t.Helper()
	req.Queue = "jobs"
	v, err := x.s.Read(t.Context(), req)
	require.NoError(t, err)
	return v
}

func (x *fixture) leave(t *testing.T, ref driver.Ref, first bool) {
	t.Helper()
	_, err := x.other.Leave(t.Context(), driver.LeaveRequest{Ref: ref, First: first})
	require.NoError(t, err)
}

func firstKind(t *testing.T, x *fixture) {
	a, b := join(t, x.other, "jobs"), join(t, x.other, "jobs")
	wa, wb := watch(t, x.s, a.Target()), watch(t, x.s, b.Target())
	x.leave(t, b.Ref, false)
	x.leave(t, a.Ref, true)
	assert.Equal(t, driver.Event{Kind: driver.Gone, First: true}, wa.get()[1])
	assert.Equal(t, gone, wb.get()[1])
	assert.Equal(t, gone, watch(t, x.s, a.Target()).get()[0], "it is not kept")
}

func nearKind(t *testing.T, x *fixture) {
	var all []driver.Ref
	for range 3 {
		all = append(all, join(t, x.other, "jobs").Ref)
	}
	j, err := x.s.Join(t.Context(), driver.JoinRequest{Queue: "jobs", Nearest: 2})
	require.NoError(t, err)
	require.Len(t, j[0].View.Entries, 2)
	assert.Equal(t, all[2], j[0].View.Entries[1].Ref)
	assert.Equal(t, 3, j[0].View.Count)
	assert.False(t, j[0].View.Complete)
}

func terseKind(t *testing.T, x *fixture) {
	join(t, x.other, "jobs")
	set(t, x.other, "limit", 0, "1")
	_, err := x.s.Join(t.Context(), driver.JoinRequest{Queue: "jobs", IfEmpty: true})
	assert.Equal(t, &driver.TakenError{Queue: "jobs", Count: -1}, unwrapped[*driver.TakenError](t, err))
	op := driver.Op{Record: "limit", Value: []byte("2")}
	_, err = operate(t, x.s, op)
	assert.Equal(t, &driver.RefusedError{Queue: "jobs", Op: op}, unwrapped[*driver.RefusedError](t, err))
	assert.Equal(t, -1, x.read(t, driver.ReadRequest{}).Count)
	j, err := x.s.Join(t.Context(), driver.JoinRequest{Queue: "jobs"})
	require.NoError(t, err)
	assert.Equal(t, driver.View{Count: 1, Records: j[0].View.Records}, j[0].View)
}

// unwrapped returns the error of a type in a chain.
func unwrapped[T error](t *testing.T, err error) (target T) {
	t.Helper()
	require.ErrorAs(t, err, &target)
	return target
}

func staleKind(t *testing.T, x *fixture) {
	a := join(t, x.other, "jobs")
	b := join(t, x.other, "jobs")
	assert.Empty(t, x.read(t, driver.ReadRequest{}).Entries, "it has learned nothing yet")
	time.Sleep(time.Second)
	assert.Len(t, x.read(t, driver.ReadRequest{}).Entries, 2)
	events := watch(t, x.s, a.Target())
	x.leave(t, a.Ref, true)
	require.Len(t, events.get(), 2)
	x.leave(t, b.Ref, true)
	assert.Len(t, x.read(t, driver.ReadRequest{}).Entries, 1, "of the one it has learned")
	_, err := x.s.Names(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, x.read(t, driver.ReadRequest{}).Entries)
	_, err = operate(t, x.other, driver.Op{Record: "limit", Value: []byte("1")})
	require.NoError(t, err)
	assert.Empty(t, x.read(t, driver.ReadRequest{Records: []string{"limit"}}).Records)
	e := join(t, x.s, "jobs")
	v := x.read(t, driver.ReadRequest{Records: []string{"limit"}})
	assert.Equal(t, e.Ref, v.Entries[0].Ref)
	assert.Len(t, v.Records, 1)
}

func laterKind(t *testing.T, x *fixture) {
	a, b := join(t, x.other, "jobs"), join(t, x.other, "jobs")
	time.Sleep(time.Second)
	require.Len(t, x.read(t, driver.ReadRequest{}).Entries, 2)
	x.leave(t, a.Ref, true)
	_, err := x.other.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Entry: b.Ref, Marks: driver.MarkAdmitted, Ops: []driver.Op{
		{Record: "limit", Value: []byte("1")},
	}})
	require.NoError(t, err)
	v := x.read(t, driver.ReadRequest{Marks: true, Detail: true, Records: []string{"limit"}})
	require.Len(t, v.Entries, 2)
	assert.Equal(t, driver.Entry{Ref: a.Ref, Mode: driver.Weighted, Weight: 1}, v.Entries[0], "it is gone meanwhile")
	assert.Equal(t, driver.MarkAdmitted, v.Entries[1].Marks)
	assert.Len(t, v.Records, 1)
}

func lateArmedKind(t *testing.T, x *fixture) {
	a, b := join(t, x.other, "jobs"), join(t, x.s, "jobs")
	own, before := watch(t, x.s, b.Target()), watch(t, x.s, a.Target())
	x.leave(t, a.Ref, true)
	assert.Equal(t, []driver.Event{armed, gone}, before.get())
	assert.Empty(t, own.get())
	time.Sleep(time.Second)
	assert.Equal(t, []driver.Event{armed}, own.get())
}

func disorderKind(t *testing.T, x *fixture) {
	all := &list[string]{}
	var want []string
	for range 20 {
		e := join(t, x.other, "jobs")
		want = append(want, e.Key)
		first := true
		t.Cleanup(x.s.Watch(e.Target(), func(ev driver.Event) {
			assert.Equal(t, first, ev.Kind == driver.Armed, "those of one target are in order")
			if first = false; ev.Kind == driver.Gone {
				all.add(e.Key)
			}
		}))
	}
	synctest.Wait()
	require.True(t, x.st.Expire(x.other.ID()))
	time.Sleep(time.Second)
	assert.ElementsMatch(t, want, all.get())
	assert.NotEqual(t, want, all.get())
}

func spuriousKind(t *testing.T, x *fixture) {
	holders := watch(t, x.s, driver.Target{Kind: driver.OfHolders, Queue: "jobs"})
	assert.Equal(t, []driver.Event{armed, changed}, holders.get())
	e := join(t, x.other, "jobs")
	assert.Len(t, holders.get(), 3)
	assert.Equal(t, []driver.Event{armed}, watch(t, x.s, e.Target()).get())
}

func noOptionalKind(t *testing.T, x *fixture) {
	e := join(t, x.s, "jobs")
	results, err := x.s.Update(t.Context(), driver.UpdateRequest{
		Queue: "jobs", Entry: e.Ref, Marks: driver.MarkAdmitted, Detail: []byte("x"),
		Ops: []driver.Op{{Record: "a", Value: []byte("a"), Optional: true}, {Record: "b", Value: []byte("b")}},
	})
	require.NoError(t, err)
	assert.Equal(t, driver.Result{}, results[0])
	assert.True(t, results[1].Done)
	_, err = x.s.Leave(t.Context(), driver.LeaveRequest{Ref: e.Ref, Ops: []driver.Op{{Record: "b", If: driver.Equal([]byte("b"))}}})
	require.NoError(t, err)
	synctest.Wait()
	assert.Len(t, inner().Records(x.st, "jobs"), 1)
	assert.Empty(t, entries(x.st, "jobs"))
}

// observedKind: only a client that is connected, and has a watch on a queue of it, ends a session.
func observedKind(t *testing.T, x *fixture) {
	own := watch(t, x.other, join(t, x.other, "others").Target())
	for _, f := range []struct{ fail, end func(c *membackend.Client) }{
		{func(c *membackend.Client) { c.Cut(fault.Requests) }, (*membackend.Client).Heal},
		{func(c *membackend.Client) { c.Cut(fault.Replies) }, (*membackend.Client).Heal},
		{(*membackend.Client).Stall, (*membackend.Client).Resume},
	} {
		dead, _ := open(t, x.st.NewClient())
		e := join(t, dead, "jobs")
		_, err := dead.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Entry: e.Ref, Ops: []driver.Op{{Record: "a", Value: []byte("a"), Bound: true}}})
		require.NoError(t, err)
		dead.Abandon()
		time.Sleep(3 * ttl)
		require.Len(t, entries(x.st, "jobs"), 1, "no client looks")

		client := x.st.NewClient()
		by, _ := open(t, client)
		w := watch(t, by, driver.Target{Kind: driver.OfRecord, Queue: "jobs", Record: "a"})
		require.Equal(t, []driver.Event{armed}, w.get())
		time.Sleep(ttl - time.Millisecond)
		f.fail(client)
		time.Sleep(ttl / 2)
		require.Len(t, entries(x.st, "jobs"), 1, "it sees nothing")
		f.end(client)
		time.Sleep(ttl - time.Millisecond)
		require.Len(t, entries(x.st, "jobs"), 1, "a whole TTL since it is back")
		time.Sleep(2 * time.Millisecond)
		require.Empty(t, entries(x.st, "jobs"))
		require.Empty(t, inner().Records(x.st, "jobs"))
		require.NotContains(t, x.st.Sessions(), dead.ID())
		require.NoError(t, by.Close(t.Context()))
	}
	assert.Equal(t, []driver.Event{armed}, own.get(), "it renews")
}

func maxTTLKind(t *testing.T, x *fixture) {
	b := x.st.Backend()
	assert.Equal(t, ttl, b.Info().MaxTTL)
	_, err := b.Open(t.Context(), driver.Config{TTL: ttl + 1})
	require.ErrorIs(t, err, driver.ErrRefused)
}
