package membackend_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// record watches an entry, and returns what tells the events so far.
func record(t *testing.T, s driver.Session, req driver.WatchRequest) func() []driver.EventKind {
	t.Helper()
	var mu sync.Mutex
	var kinds []driver.EventKind
	t.Cleanup(s.Watch(req, func(ev driver.Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, ev.Kind)
	}))
	synctest.Wait()
	return func() []driver.EventKind {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(kinds)
	}
}

func TestWatchDoesNotTellWhatWasBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		e := join(t, s, "jobs")
		require.True(t, st.Delete("jobs", e.Key))
		fromNow := record(t, s, driver.WatchRequest{Ref: e.Ref})
		since := record(t, s, driver.WatchRequest{Ref: e.Ref, Since: e.Place})
		assert.Equal(t, []driver.EventKind{driver.Armed}, fromNow(), "a look after Armed shows it")
		assert.Equal(t, []driver.EventKind{driver.Gone}, since())
	})
}

func TestCutLosesEventsAndHealSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		a, b := join(t, s, "jobs"), join(t, s, "jobs")
		lost := record(t, s, driver.WatchRequest{Ref: a.Ref})
		since := record(t, s, driver.WatchRequest{Ref: a.Ref, Since: a.Place})
		alive := record(t, s, driver.WatchRequest{Ref: b.Ref})
		c.Cut(fault.Replies)
		require.True(t, st.Delete("jobs", a.Key))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, lost(), 1)
		c.Heal()
		synctest.Wait()

		again := []driver.EventKind{driver.Armed, driver.Broken, driver.Armed}
		assert.Equal(t, again, lost(), "what went meanwhile is not told")
		assert.Equal(t, []driver.EventKind{driver.Armed, driver.Broken, driver.Gone}, since())
		assert.Equal(t, again, alive())
		require.True(t, st.Delete("jobs", b.Key))
		synctest.Wait()
		assert.Equal(t, append(again, driver.Gone), alive())
	})
}

func TestRequestsCutLeaveArmedWatchesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		a := join(t, s, "jobs")
		armed := record(t, s, driver.WatchRequest{Ref: a.Ref})
		c.Cut(fault.Requests)
		late := record(t, s, driver.WatchRequest{Ref: a.Ref})
		assert.Empty(t, late())
		c.Heal()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []driver.EventKind{driver.Armed}, late(), "it was asked for again")
		require.True(t, st.Delete("jobs", a.Key))
		synctest.Wait()
		assert.Equal(t, []driver.EventKind{driver.Armed, driver.Gone}, armed())
	})
}

func TestLostWatchRequestIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, s, _ := serve(t, memory.Options{})
		a := join(t, s, "jobs")
		c.Inject(fault.Watch, fault.LostRequest)
		c.Inject(fault.Watch, fault.LostReply)
		armed := record(t, s, driver.WatchRequest{Ref: a.Ref})
		assert.Empty(t, armed())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []driver.EventKind{driver.Armed}, armed())
		assert.Equal(t, 3, c.Sent(fault.Watch))
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 3, c.Sent(fault.Watch), "and not again once it is armed")
	})
}

// telling is a service that tells, with a holder and one who waits behind it.
type telling struct {
	t              *testing.T
	st             *membackend.Store
	holder, waiter driver.Session
	c              *membackend.Client // the waiter's
	first, second  driver.Entry
}

func newTelling(t *testing.T) *telling {
	t.Helper()
	x := &telling{t: t, st: memtest.NewWith(memory.Options{Tells: true})}
	x.c = x.st.NewClient()
	x.holder, _ = open(t, x.st.NewClient())
	x.waiter, _ = open(t, x.c)
	x.first, x.second = join(t, x.holder, "jobs"), join(t, x.waiter, "jobs")
	return x
}

// watch watches the holder's entry, and returns what tells the last event.
func (x *telling) watch() func() driver.Event {
	x.t.Helper()
	var mu sync.Mutex
	var last driver.Event
	x.t.Cleanup(x.waiter.Watch(driver.WatchRequest{Ref: x.first.Ref, Tell: true}, func(ev driver.Event) {
		mu.Lock()
		defer mu.Unlock()
		last = ev
	}))
	time.Sleep(time.Second)
	return func() driver.Event {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func (x *telling) giveBack() {
	x.t.Helper()
	_, err := x.holder.Leave(x.t.Context(), driver.LeaveRequest{Ref: x.first.Ref, Held: true})
	require.NoError(x.t, err)
}

func TestWordIsReadOneRoundTripLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelling(t)
		x.c.DelayRequests(3 * time.Millisecond)
		x.c.Delay(5 * time.Millisecond)
		last := x.watch()
		x.giveBack()
		time.Sleep(12 * time.Millisecond) // the event, the question, and most of the answer
		assert.Equal(t, driver.Armed, last().Kind)
		time.Sleep(time.Millisecond)
		ev := last()
		assert.Equal(t, driver.Gone, ev.Kind)
		assert.True(t, ev.Held)
		assert.Equal(t, 1, x.c.Sent(fault.Tell))
	})
}

func TestWordIsLostToTheNextWhoJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelling(t)
		x.c.DelayRequests(time.Millisecond)
		x.c.Delay(time.Millisecond)
		last := x.watch()
		x.giveBack()
		join(t, x.holder, "jobs")
		time.Sleep(time.Second)
		assert.Equal(t, driver.Gone, last().Kind)
		assert.False(t, last().Held)
	})
}

func TestWordIsAskedForUntilThereIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelling(t)
		last := x.watch()
		x.c.Inject(fault.Tell, fault.LostRequest)
		x.c.Inject(fault.Tell, fault.LostReply)
		x.giveBack()
		assert.Equal(t, driver.Armed, last().Kind)
		x.c.Cut(fault.Both) // this is no news to who is asking already
		time.Sleep(time.Second)
		x.c.Heal()
		time.Sleep(5 * time.Second)
		assert.Equal(t, driver.Gone, last().Kind)
		assert.True(t, last().Held)
		asked := x.c.Sent(fault.Tell)
		assert.GreaterOrEqual(t, asked, 3)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, asked, x.c.Sent(fault.Tell), "and not again once it was told")
	})
}

func TestCanceledQuestionIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTelling(t)
		var mu sync.Mutex
		told := 0
		cancel := x.waiter.Watch(driver.WatchRequest{Ref: x.first.Ref, Tell: true}, func(driver.Event) {
			mu.Lock()
			defer mu.Unlock()
			told++
		})
		synctest.Wait()
		x.c.Delay(time.Second)
		x.giveBack()
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 1, x.c.Sent(fault.Tell))
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 1, told, "Armed only")
		assert.Equal(t, 1, x.c.Sent(fault.Tell))
		x.c.Heal()
	})
}

func TestServiceWithoutNumbersTellsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{NoRevs: true})
		a, b := join(t, s, "jobs"), join(t, s, "jobs")
		require.True(t, st.Delete("jobs", a.Key))
		gone := record(t, s, driver.WatchRequest{Ref: a.Ref})
		overCut := record(t, s, driver.WatchRequest{Ref: b.Ref})
		t.Cleanup(s.Watch(driver.WatchRequest{Ref: b.Ref}, func(ev driver.Event) { assert.Zero(t, ev.Rev) }))
		c.Cut(fault.Both)
		require.True(t, st.Delete("jobs", b.Key))
		c.Heal()
		synctest.Wait()
		assert.Equal(t, []driver.EventKind{driver.Gone}, gone())
		assert.Equal(t, []driver.EventKind{driver.Armed, driver.Broken, driver.Gone}, overCut())
	})
}
