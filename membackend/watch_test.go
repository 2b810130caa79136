package membackend_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
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
		st, _, s, _ := serve(t, nil)
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
		st, c, s, _ := serve(t, nil)
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
		st, c, s, _ := serve(t, nil)
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
		_, c, s, _ := serve(t, nil)
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
