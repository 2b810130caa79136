package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// clock never advances. Unless it has another Clock, a test does what is due after some time.
type clock struct {
	driver.Clock
	now driver.Instant
	due []func()
}

func (c *clock) Now() driver.Instant { return c.now }

func (c *clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	if c.Clock != nil {
		return c.Clock.AfterFunc(d, f)
	}
	c.due = append(c.due, f)
	return func() bool { return false }
}

// host is a session that only answers reads.
type host struct {
	states []State
	asked  []int64       // the revisions that were asked for
	held   chan struct{} // if it is not nil, answers come when it is closed
}

func (h *host) read(_ context.Context, refs []driver.Ref, rev int64) ([]State, error) {
	h.asked = append(h.asked, rev)
	if h.held != nil {
		<-h.held
	}
	return h.states[:len(refs)], nil
}

// offline returns a Hub with a stream to no server.
func offline(states ...State) (*Hub, *stream, *host) {
	s := &host{states: states}
	h := New(Config{
		Send:  &rpc.Sender{Client: &rpc.Client{Clock: &clock{now: driver.Instant(time.Hour)}}},
		Quiet: time.Second, Logger: slog.New(slog.DiscardHandler), States: s.read,
		Marks:    func(kv *mvccpb.KeyValue) driver.Marks { return driver.Marks(len(kv.Value)) },
		Reported: func(*Target, driver.EventKind, int64) {},
		Floor:    func(string) int64 { return 0 },
	})
	st := &stream{h: h, silence: 2 * time.Second, wake: make(chan struct{}, 1), byID: make(map[int64]*serverWatch), received: h.Send.Clock.Now()}
	h.stream = st
	h.start.Do(func() {})
	return h, st, s
}

// again is the next stream: it asks for all watches anew.
func (st *stream) again() {
	st.h.mu.Lock()
	defer st.h.mu.Unlock()
	st.h.stream, st.byID = st, make(map[int64]*serverWatch)
	for _, w := range st.h.watches {
		st.create(w)
	}
}

// created reports that the server has made the newest watch, at a revision.
func (st *stream) created(t *testing.T, rev int64) { st.confirmed(t, st.h.lastID, rev) }

func (st *stream) confirmed(t *testing.T, id, rev int64) {
	st.message(t, &pb.WatchResponse{Created: true, WatchId: id, Header: &pb.ResponseHeader{Revision: rev}})
}

func (st *stream) message(t *testing.T, r *pb.WatchResponse) {
	st.h.mu.Lock()
	err := st.receive(r)
	st.h.mu.Unlock()
	require.NoError(t, err)
	st.h.drain()
	st.h.wg.Wait()
}

// put and gone are changes of a key that the newest watch reports.
func (st *stream) put(t *testing.T, key string, made, rev int64, value string) {
	kv := &mvccpb.KeyValue{Key: []byte(key), CreateRevision: made, ModRevision: rev, Version: 1 + rev - made, Value: []byte(value)}
	st.message(t, &pb.WatchResponse{WatchId: st.h.lastID, Header: &pb.ResponseHeader{Revision: rev}, Events: []*mvccpb.Event{{Kv: kv}}})
}

func (st *stream) gone(t *testing.T, key string, rev int64) {
	ev := &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}}
	st.message(t, &pb.WatchResponse{WatchId: st.h.lastID, Header: &pb.ResponseHeader{Revision: rev}, Events: []*mvccpb.Event{ev}})
}

// entry is the target of an entry at place 5 that was last seen at a revision.
func entry(known int64) Target {
	return Target{Queue: "x", Spec: Spec{Key: "k", Puts: true}, Ref: driver.Ref{Queue: "x", Key: "k", Place: 5}, Known: known}
}

// others makes watches on other keys.
func (h *Hub) others(keys ...string) {
	for _, k := range keys {
		h.Watch(Target{Spec: Spec{Key: k}, Ref: driver.Ref{Key: k, Place: 9}}, func(driver.Event) {})
	}
}

// events collects what a watch reports.
func (h *Hub) events(t Target) *[]driver.Event {
	all := &[]driver.Event{}
	h.Watch(t, func(ev driver.Event) { *all = append(*all, ev) })
	return all
}

func kinds(evs *[]driver.Event) (all []driver.EventKind) {
	for _, ev := range *evs {
		all = append(all, ev.Kind)
	}
	return all
}

func TestAnEntryIsReadUnlessNothingCanHaveMovedSinceItWasSeen(t *testing.T) {
	there, gone := State{There: true, Rev: 12}, State{Rev: 12}
	older := entry(10)
	older.Shown = 11
	for name, c := range map[string]struct {
		target Target
		state  State
		want   driver.EventKind
		asked  []int64
	}{
		"seen when the watch began":   {entry(10), there, driver.Armed, nil},
		"seen later":                  {entry(11), there, driver.Armed, nil},
		"seen before":                 {entry(9), there, driver.Armed, []int64{10}},
		"seen before, and gone":       {entry(9), gone, driver.Gone, []int64{10}},
		"only made before":            {entry(0), there, driver.Armed, []int64{10}},
		"the queue was shown later":   {older, there, driver.Armed, []int64{11}},
		"shown later, and gone since": {older, gone, driver.Gone, []int64{11}},
	} {
		t.Run(name, func(t *testing.T) {
			h, st, s := offline(c.state)
			events := h.events(c.target)
			require.Empty(t, *events, "the server has no watch yet")
			st.created(t, 10)
			assert.Equal(t, []driver.EventKind{c.want}, kinds(events))
			assert.Equal(t, c.asked, s.asked)
			assert.Nil(t, h.unread, "what was read is not kept")
		})
	}
}

func TestALiveWatchIsShared(t *testing.T) {
	h, st, s := offline()
	first := h.events(entry(10))
	st.created(t, 10)
	st.put(t, "k", 5, 11, "m")
	require.Equal(t, []driver.EventKind{driver.Armed, driver.Changed}, kinds(first))
	assert.Equal(t, driver.Marks(1), (*first)[1].Marks)

	second := h.events(entry(8))
	h.drain()
	assert.Equal(t, []driver.Event{{Kind: driver.Armed, Marks: 1}}, *second, "the write shows that it is there, and its marks")
	assert.Empty(t, s.asked)
	assert.Len(t, h.watches, 1)

	st.gone(t, "k", 12)
	third := h.events(entry(11))
	h.drain()
	for _, events := range []*[]driver.Event{first, second, third} {
		assert.Equal(t, driver.Gone, (*events)[len(*events)-1].Kind)
	}
	st.put(t, "k", 13, 13, "")
	assert.Len(t, *third, 1, "Gone is the last event")
}

func TestWhatHappenedToAnEarlierEntryOfTheKeyIsNoEvent(t *testing.T) {
	h, st, _ := offline()
	events := h.events(entry(5))
	st.created(t, 3)
	st.gone(t, "k", 4)
	st.put(t, "k", 5, 5, "")
	assert.Equal(t, []driver.EventKind{driver.Armed}, kinds(events))
	st.put(t, "k", 9, 9, "")
	assert.Equal(t, []driver.EventKind{driver.Armed, driver.Gone}, kinds(events), "a later entry has its key")
}

func TestAfterTheStreamAnEntryIsReadAsNewAsItsQueueWasShownMeanwhile(t *testing.T) {
	h, st, s := offline(State{Rev: 31})
	shown := int64(0)
	h.Floor = func(queue string) int64 {
		assert.Equal(t, "x", queue)
		return shown
	}
	events := h.events(entry(10))
	st.created(t, 10)
	h.broken(errSilent, false)
	shown = 30 // by a member that is ahead of that of the next stream
	st.again()
	st.created(t, 20)
	assert.Equal(t, []driver.EventKind{driver.Armed, driver.Lost, driver.Gone}, kinds(events))
	assert.Equal(t, []int64{30}, s.asked)
}

// later is the target of an entry at place 10, with the key of entry, that a Join has shown
// at revision 11.
func later() Target {
	t := entry(11)
	t.Ref.Place, t.Shown = 10, 11
	return t
}

// The member of the stream is behind the one that has answered the caller: the deletion of
// the earlier entry is still due.
func TestTheMarksOfAnEarlierEntryOfTheKeyAreNotThoseOfALaterOne(t *testing.T) {
	marked := entry(5)
	marked.Marks = 1
	for name, mark := range map[string]func(h *Hub, st *stream){
		"reported by the server": func(_ *Hub, st *stream) { st.put(t, "k", 5, 8, "m") },
		"written by the session": func(h *Hub, _ *stream) { h.Changed(marked, 8) },
	} {
		t.Run(name, func(t *testing.T) {
			h, st, s := offline()
			cancel := h.Watch(entry(5), func(driver.Event) {})
			st.created(t, 3)
			mark(h, st)
			cancel()

			events := h.events(later())
			h.drain()
			assert.Equal(t, []driver.Event{{Kind: driver.Armed}}, *events)
			assert.Empty(t, s.asked)
			st.gone(t, "k", 9)
			st.put(t, "k", 10, 10, "")
			assert.Len(t, *events, 1, "what is late happened to the earlier one, or is known")
		})
	}
}

func TestAnEntryThatItsSessionWroteBeforeTheWatchBeganIsRead(t *testing.T) {
	h, st, s := offline(State{Rev: 22})
	events := h.events(entry(5))
	st.created(t, 3)
	h.broken(errSilent, false)
	h.Changed(entry(5), 20)
	st.again()
	st.created(t, 22)
	assert.Equal(t, []driver.EventKind{driver.Armed, driver.Lost, driver.Gone}, kinds(events), "it was deleted at 21")
	assert.Equal(t, []int64{22}, s.asked)
}

func TestAnAnswerThatIsLateHidesNoEndOfTheEntry(t *testing.T) {
	h, st, s := offline()
	cancel := h.Watch(entry(5), func(driver.Event) {})
	st.created(t, 3)
	cancel()
	st.gone(t, "k", 11)
	h.Changed(entry(5), 10)
	events := h.events(entry(5))
	h.drain()
	assert.Equal(t, []driver.EventKind{driver.Gone}, kinds(events))
	assert.Empty(t, s.asked)
}

// TestAReadThatOutlastsItsWatchAndStreamChangesNothing: the caller has given up, the watch
// has been forgotten, and the stream is broken, when the answer comes.
func TestAReadThatOutlastsItsWatchAndStreamChangesNothing(t *testing.T) {
	h, st, s := offline(State{There: true, Rev: 12})
	h.Watch(entry(10), func(driver.Event) {})()
	st.created(t, 10)
	s.held = make(chan struct{})
	events := []driver.Event{}
	cancel := h.Watch(entry(9), func(ev driver.Event) { events = append(events, ev) })
	cancel()
	now := h.Send.Clock.Now().Add(linger + 1)
	st.received = now
	h.mu.Lock()
	require.NoError(t, st.tick(now))
	require.Empty(t, h.watches)
	h.mu.Unlock()
	h.broken(errSilent, false)

	close(s.held)
	h.wg.Wait()
	assert.Empty(t, events)
	assert.Equal(t, []int64{10}, s.asked)
}

func TestEntriesAreReadWhenTheLastWatchThatIsDueIsRefused(t *testing.T) {
	h, st, s := offline(State{There: true, Rev: 12})
	h.Watch(entry(10), func(driver.Event) {})
	st.created(t, 10)

	other := entry(9)
	other.Spec.Key, other.Ref.Key = "other", "other"
	h.events(other) // its created notice is due
	second := h.events(entry(9))
	require.Empty(t, *second)
	st.message(t, &pb.WatchResponse{Created: true, Canceled: true, WatchId: -1, Header: &pb.ResponseHeader{Revision: 10}, CancelReason: "permission denied"})
	assert.Equal(t, []driver.EventKind{driver.Armed}, kinds(second))
	assert.Equal(t, []int64{10}, s.asked)
}

// In a busy session there is no moment at which no created notice is due.
func TestEntriesAreReadAlsoWhileACreatedNoticeIsAlwaysDue(t *testing.T) {
	for name, known := range map[string]int64{"the others are read too": 9, "the others need no read": 10} {
		t.Run(name, func(t *testing.T) {
			h, st, s := offline(slices.Repeat([]State{{There: true, Rev: 12}}, maxBatch)...)
			first := h.events(entry(9))
			for i := range 2 * maxBatch {
				other := entry(known)
				other.Spec.Key = fmt.Sprint("other-", i)
				other.Ref.Key = other.Spec.Key
				h.events(other)
				st.confirmed(t, h.lastID-1, 10)
			}
			if known == 10 {
				assert.Empty(t, s.asked, "it waits for others with which it can be read")
				h.mu.Lock()
				require.NoError(t, st.tick(h.Send.Clock.Now()))
				h.mu.Unlock()
				h.wg.Wait()
			}
			assert.Equal(t, []driver.EventKind{driver.Armed}, kinds(first))
			assert.LessOrEqual(t, len(s.asked), 2)
		})
	}
}

func TestArmedIsAsNewAsTheReadThatShowsTheMarks(t *testing.T) {
	h, st, _ := offline(State{There: true, Marks: 1, Rev: 12})
	var revs []int64
	h.Reported = func(_ *Target, _ driver.EventKind, rev int64) { revs = append(revs, rev) }
	events := h.events(entry(9))
	st.created(t, 10)
	assert.Equal(t, []driver.Event{{Kind: driver.Armed, Marks: 1}}, *events)
	assert.Equal(t, []int64{12}, revs)
}

func TestAStreamIsSilentOnlyWhileAMessageIsDue(t *testing.T) {
	h, st, _ := offline()
	now := h.Send.Clock.Now()
	require.NoError(t, st.tick(now.Add(time.Hour)), "nothing is watched")
	h.events(entry(10))
	require.NoError(t, st.tick(now.Add(2*time.Second)))
	require.ErrorIs(t, st.tick(now.Add(2*time.Second+1)), errSilent)
}

func TestAQuietStreamIsAskedWhetherItLives(t *testing.T) {
	h, st, _ := offline()
	now := h.Send.Clock.Now()
	h.events(entry(10))
	st.created(t, 10)
	asked := func(after time.Duration) (n int) {
		st.out = nil
		require.NoError(t, st.tick(now.Add(after)))
		for _, r := range st.out {
			if r.GetProgressRequest() != nil {
				n++
			}
		}
		return n
	}
	assert.Zero(t, asked(time.Second))
	assert.Equal(t, 1, asked(time.Second+1))
	assert.Zero(t, asked(1500*time.Millisecond), "it was asked a moment ago")
}

func TestAWatchIsKeptForAWhileWhenItHasNoCaller(t *testing.T) {
	h, st, _ := offline()
	now := h.Send.Clock.Now()
	cancel := h.Watch(entry(10), func(driver.Event) {})
	st.created(t, 10)
	cancel()
	cancel()
	st.out = nil
	require.NoError(t, st.tick(now.Add(linger)))
	assert.Len(t, h.watches, 1)
	h.Send.Clock.(*clock).now = now.Add(linger)
	st.received, st.out = now.Add(linger), nil
	require.NoError(t, st.tick(now.Add(linger+1)))
	assert.Empty(t, h.watches)
	require.NotEmpty(t, st.out)
	assert.NotNil(t, st.out[0].GetCancelRequest())
}

func TestAWatchThatBringsEventsWithoutCallersIsNotKept(t *testing.T) {
	h, st, _ := offline()
	h.others("own", "other")
	watch := func() { h.Watch(entry(10), func(driver.Event) {})() }
	watch()
	st.created(t, 10)
	rev := int64(10)
	bring := func(n int) {
		for range n {
			rev++
			st.gone(t, "k", rev)
		}
	}
	bring(maxUnused)
	watch() // it was used again
	bring(maxUnused)
	require.Len(t, h.watches, 3)

	st.out = nil
	bring(1)
	assert.Len(t, h.watches, 2)
	require.Len(t, st.out, 1)
	assert.NotNil(t, st.out[0].GetCancelRequest())
	bring(1) // one that was under way
}

// TestTheWatchOfAPairIsKept: of two sessions that take turns, each has one on its own entries and
// one on those of the other.
func TestTheWatchOfAPairIsKept(t *testing.T) {
	h, st, _ := offline()
	h.others("own")
	h.Watch(entry(10), func(driver.Event) {})()
	st.created(t, 10)
	for rev := range int64(10 * maxUnused) {
		st.gone(t, "k", 11+rev)
	}
	assert.Len(t, h.watches, 2)
}

func TestAQueueIsArmedWithoutARead(t *testing.T) {
	h, st, s := offline()
	whole := Target{Spec: Spec{Key: "r/x/", End: "r/x0", Puts: true}, Queue: "x"}
	events := h.events(whole)
	st.created(t, 10)
	st.put(t, "r/x/k", 11, 11, "")
	st.gone(t, "r/x/k", 12)
	assert.Equal(t, []driver.EventKind{driver.Armed, driver.Changed, driver.Changed}, kinds(events))
	assert.Empty(t, s.asked)
}
