package membackend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// The events that need no more than their kind.
var (
	armed   = driver.Event{Kind: driver.Armed}
	changed = driver.Event{Kind: driver.Changed}
	gone    = driver.Event{Kind: driver.Gone}
	lost    = driver.Event{Kind: driver.Lost}
)

func TestCutLosesEventsAndHealReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		a, b := join(t, s, "jobs"), join(t, s, "jobs")
		lose, live, all := watch(t, s, a.Target()), watch(t, s, b.Target()), watch(t, s, driver.Target{Kind: driver.OfQueue, Queue: "jobs"})
		c.Cut(fault.Replies)
		unarmed := watch(t, s, b.Target())
		require.True(t, st.Delete("jobs", a.Key))
		time.Sleep(time.Second)
		require.Equal(t, []driver.Event{armed}, lose.get())
		c.Heal()

		assert.Equal(t, []driver.Event{armed, lost, gone}, lose.get())
		assert.Equal(t, []driver.Event{armed, lost, armed}, live.get())
		assert.Equal(t, []driver.Event{armed, lost, armed}, all.get())
		assert.Equal(t, []driver.Event{armed}, unarmed.get(), "it had nothing to lose")
		require.True(t, st.Delete("jobs", b.Key))
		assert.Equal(t, []driver.Event{armed, lost, armed, gone}, live.get())
	})
}

func TestRequestsCutLeaveArmedWatchesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		a := join(t, s, "jobs")
		before := watch(t, s, a.Target())
		c.Cut(fault.Requests)
		late := watch(t, s, a.Target())
		assert.Empty(t, late.get())
		c.Heal()
		time.Sleep(time.Second)
		assert.Equal(t, []driver.Event{armed}, late.get(), "it was asked for again")
		require.True(t, st.Delete("jobs", a.Key))
		assert.Equal(t, []driver.Event{armed, gone}, before.get())
	})
}

func TestWatchRequestIsSentUntilTheWatchIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, s, _ := serve(t, memory.Options{})
		a := join(t, s, "jobs")
		c.Inject(fault.Watch, fault.LostRequest)
		c.Inject(fault.Watch, fault.LostReply)
		events := watch(t, s, a.Target())
		assert.Empty(t, events.get())
		time.Sleep(time.Minute)
		assert.Equal(t, []driver.Event{armed}, events.get())
		assert.Equal(t, 3, c.Sent(fault.Watch))
	})
}

func TestWatchesReportWhatTheirTargetsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, _ := serve(t, memory.Options{})
		e := join(t, s, "jobs")
		watches := map[string]*list[driver.Event]{
			"entry":   watch(t, s, e.Target()),
			"queue":   watch(t, s, driver.Target{Kind: driver.OfQueue, Queue: "jobs"}),
			"holders": watch(t, s, driver.Target{Kind: driver.OfHolders, Queue: "jobs"}),
			"record":  watch(t, s, driver.Target{Kind: driver.OfRecord, Queue: "jobs", Record: "limit"}),
			"asks":    watch(t, s, driver.Target{Kind: driver.OfQueue, Queue: driver.AskQueue("jobs")}),
		}
		update := func(req driver.UpdateRequest) {
			t.Helper()
			req.Queue = "jobs"
			_, err := s.Update(t.Context(), req)
			require.NoError(t, err)
		}
		events := func(of string) []driver.Event { return watches[of].get()[1:] }
		update(driver.UpdateRequest{Ops: []driver.Op{{Record: "limit", Value: []byte("3")}, {Record: "other", Value: []byte{}}}})
		update(driver.UpdateRequest{Entry: e.Ref, Detail: []byte("no event")})
		assert.Equal(t, []driver.Event{changed}, events("record"))
		assert.Empty(t, events("queue"))
		update(driver.UpdateRequest{Entry: e.Ref, Marks: driver.MarkShared})
		assert.Empty(t, events("holders"))
		update(driver.UpdateRequest{Entry: e.Ref, Marks: driver.MarkShared | driver.MarkAdmitted})
		update(driver.UpdateRequest{Entry: e.Ref, Marks: driver.MarkAdmitted}) // it has that
		both := driver.MarkShared | driver.MarkAdmitted
		assert.Equal(t, []driver.Event{{Kind: driver.Changed, Marks: driver.MarkShared}, {Kind: driver.Changed, Marks: both}}, events("entry"))
		assert.Equal(t, driver.Event{Kind: driver.Armed, Marks: both}, watch(t, s, e.Target()).get()[0])
		other := join(t, s, "jobs")
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: other.Ref}, driver.LeaveRequest{Ref: e.Ref})
		require.NoError(t, err)

		assert.Equal(t, gone, events("entry")[2])
		assert.Len(t, events("holders"), 2, "one came and went")
		assert.Len(t, events("queue"), 5)
		assert.Len(t, events("record"), 1)
		assert.Empty(t, events("asks"))
	})
}
