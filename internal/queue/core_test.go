package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// core is a queue without an engine: facts go in, and what it asks for is written down.
type core struct {
	*queue
	t       *testing.T
	entries map[int64]*entry
	asked   []string
	doubted doubts
	told    bool
	clock   driver.Instant
	sent    *ask
}

func newCore(t *testing.T) *core {
	c := &core{t: t, entries: map[int64]*entry{}, clock: 1}
	c.queue = &queue{name: "n", out: c}
	return c
}

func (c *core) ask(format string, args ...any) {
	c.asked = append(c.asked, fmt.Sprintf(format, args...))
}

func (c *core) watch(w *watch) {
	c.ask("watch %s", targetName(w.target))
	w.cancel = func() { c.ask("cancel %s", targetName(w.target)) }
}

func (c *core) read(*queue) {
	if !c.reading {
		c.reading = true
		c.ask("read")
	}
}

func (c *core) soon(en *entry)      { c.ask("read soon"); c.want(en) }
func (c *core) waits(*entry)        {}
func (c *core) lost(en *entry)      { c.ask("lost %d", en.Place); c.doubted.raise() }
func (c *core) now() driver.Instant { return c.clock }
func (c *core) doubts() *doubts     { return &c.doubted }
func (c *core) doubt()              { c.ask("doubt"); c.doubted.raise() }
func (c *core) firsts() bool        { return c.told }

func targetName(t driver.Target) string {
	switch t.Kind {
	case driver.OfEntry:
		return fmt.Sprint(t.Ref.Place)
	case driver.OfHolders:
		return "holders"
	case driver.OfRecord:
		return t.Record
	case driver.OfQueue:
	}
	return "queue"
}

// since returns what was asked for since the last call.
func (c *core) since() string {
	said := c.asked
	c.asked = nil
	return strings.Join(said, ", ")
}

// holders returns the places of the own entries that hold.
func (c *core) holders() (places []int64) {
	for place, en := range c.entries {
		if en.state == held {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places
}

func ref(place int64) driver.Ref {
	return driver.Ref{Queue: "n", Key: fmt.Sprint("k", place%3), Place: place}
}

// view reads entries: a place each, with r for a reader, d for a writer that became one,
// f for another program's, p and a number for permits, and * for the mark Admitted. "..." in front says that there
// may be more, and "limit 3" behind that the limit was read.
func view(t *testing.T, text string) driver.View {
	v := driver.View{Complete: true, Count: -1}
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		e := driver.Entry{}
		switch word := words[i]; word {
		case "...":
			v.Complete = false
			continue
		case "limit":
			i++
			v.Records = map[string]driver.Record{recordLimit: {Value: []byte(words[i]), Version: 1, Token: 1}}
			continue
		default:
			word, marked := strings.CutSuffix(word, "*")
			place, kind := int64(0), ""
			_, err := fmt.Sscanf(word+" ", "%d%s", &place, &kind)
			if err != nil {
				_, err = fmt.Sscanf(word, "%d", &place)
			}
			require.NoError(t, err, word)
			e.Ref = ref(place)
			switch {
			case marked:
				e.Mode, e.Weight, e.Marks = driver.Weighted, 1, driver.MarkAdmitted
			case kind == "f":
				e.Foreign = true
			case kind == "r":
				e.Mode = driver.Shared
			case kind == "d":
				e.Marks = driver.MarkShared
			case kind == "p":
				e.Mode, e.Weight = driver.Weighted, 1
			}
		}
		v.Entries = append(v.Entries, e)
	}
	return v
}

// join adds an own entry, behind those in the view.
func (c *core) join(place int64, r rule.Rule, mode driver.Mode, ahead string, count int) *entry {
	v := view(c.t, ahead)
	v.Count = count
	v.Complete = v.Complete && len(v.Entries) == count
	g := &group{hooks: silent{}, missing: 1, done: make(chan struct{}), fell: make(chan struct{})}
	en := &entry{g: g, rule: r}
	g.entries = []*entry{en}
	c.entries[place] = en
	mine := driver.Entry{Ref: ref(place), Mode: mode, Weight: 1, Token: place}
	c.joins++
	c.joined(en, driver.Joined{Entry: mine, View: v}, c.doubted.n)
	return en
}

// mutex is join for a mutex.
func (c *core) mutex(place int64, ahead string) *entry {
	return c.join(place, rule.Mutex(), driver.Exclusive, ahead, len(view(c.t, ahead).Entries))
}

func (c *core) send() { c.sent = c.next() }

// answer takes in the answer to the read that was sent.
func (c *core) answer(text string) {
	require.NotNil(c.t, c.sent, "no read was sent")
	a := c.sent
	c.sent = nil
	c.learned(a, view(c.t, text))
	if c.reading = len(c.wanted) > 0; c.reading {
		c.ask("read")
	}
}

func (c *core) happens(place int64, ev driver.Event) {
	w := c.watches.get(ref(place).Target())
	require.NotNil(c.t, w, "nobody watches %d", place)
	c.event(w, ev)
}

func (c *core) gone(place int64)  { c.happens(place, driver.Event{Kind: driver.Gone}) }
func (c *core) armed(place int64) { c.happens(place, driver.Event{Kind: driver.Armed}) }

// leaves has an own entry leave, and returns what takes in the answer.
func (c *core) leaves(place int64) (answered func(driver.Left)) {
	en := c.entries[place]
	en.leaving = true
	if en.guard != nil {
		en.guard.stop()
	}
	en.wasFirst()
	before := c.hearsay
	return func(l driver.Left) { c.left(en, l, before) }
}

// silent are hooks that nobody has set.
type silent struct{ door.Request }

func (silent) Position(int, int, int) {}

// The session is revoked while it holds 1 and waits with 2: the end of 1, which nobody
// asked for, must not grant 2, whose end is on its way.
func TestChainOfRevokedSessionIsNotGranted(t *testing.T) {
	for name, c := range map[string]struct {
		view    string
		holders []int64
	}{
		"the session has ended":         {"", nil},
		"only that entry was deleted":   {"2", []int64{2}},
		"others were deleted meanwhile": {"... ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := newCore(t)
			q.protect(q.mutex(1, ""))
			q.armed(1)
			q.mutex(2, "1")
			q.armed(2)
			q.since()

			q.gone(1)

			assert.Equal(t, "lost 1, cancel 1, read", q.since())
			assert.Empty(t, q.holders())
			q.send()
			q.answer(c.view)
			assert.Equal(t, c.holders, q.holders())
		})
	}
}

// Curator makes a reader of a writer by a second entry with the writer's number, and then
// deletes the writer's.
func TestTheEndOfAnotherProgramsWriterGrantsNothingWithoutARead(t *testing.T) {
	q := newCore(t)
	q.mutex(2, "1f")
	q.armed(1)
	q.armed(2)
	q.since()

	q.gone(1)

	assert.Equal(t, "cancel 1, read", q.since())
	assert.Empty(t, q.holders())
	q.send()
	q.answer("2")
	assert.Equal(t, []int64{2}, q.holders())
}

// A request of two locks has one and waits for the other. What was proved of the first is
// old when the second is granted.
func TestSeveralAreGrantedOnlyWhileTheirWatchesAreArmed(t *testing.T) {
	for name, end := range map[string]driver.EventKind{"lives": driver.Armed, "is gone": driver.Gone} {
		t.Run(name, func(t *testing.T) {
			x, y := newCore(t), newCore(t)
			first, second := x.mutex(1, ""), y.mutex(2, "1")
			g := &group{hooks: silent{}, entries: []*entry{first, second}, missing: 1, waits: true, done: make(chan struct{}), fell: make(chan struct{})}
			first.g, second.g = g, g
			g.protect()
			y.armed(1)
			y.armed(2)

			y.gone(1)

			assert.Equal(t, []int64{2}, y.holders())
			assert.False(t, g.whole, "the watch on the first is not armed")
			x.happens(1, driver.Event{Kind: end})
			assert.Equal(t, end == driver.Armed, g.whole)
			assert.Equal(t, end == driver.Gone, g.fallen)
		})
	}
}

// The doubt is the session's: it concerns other queues too.
func TestDoubtStopsGrantsInOtherQueues(t *testing.T) {
	q := newCore(t)
	q.mutex(2, "1")
	q.armed(1)
	q.armed(2)
	q.doubted.raise() // in another queue
	q.since()

	q.gone(1)

	assert.Equal(t, "cancel 1, read", q.since())
	assert.Empty(t, q.holders())
	q.send()
	q.answer("2")
	assert.Equal(t, []int64{2}, q.holders())
}

// A read that was sent before the doubt does not resolve it.
func TestReadFromBeforeTheDoubtGrantsNothing(t *testing.T) {
	q := newCore(t)
	q.join(3, rule.Mutex(), driver.Exclusive, "...", 2)
	q.send()
	q.doubted.raise()

	q.answer("3")

	assert.Empty(t, q.holders())
	q.send()
	q.answer("3")
	assert.Equal(t, []int64{3}, q.holders())
}

func TestOwnWatchThatIsArmedLateGrants(t *testing.T) {
	q := newCore(t)
	q.mutex(2, "1")
	assert.Equal(t, "watch 1, watch 2", q.since())
	q.armed(1)

	q.gone(1)

	assert.Equal(t, "cancel 1", q.since(), "nothing is read")
	assert.Empty(t, q.holders())
	q.armed(2)
	assert.Equal(t, []int64{2}, q.holders())
}

func TestOwnWatchThatFindsTheEntryGoneGrantsNothing(t *testing.T) {
	q := newCore(t)
	en := q.mutex(2, "1")
	q.gone(1)

	q.gone(2)

	assert.Empty(t, q.holders())
	assert.True(t, en.lost)
}

func TestOwnWatchThatLostEventsGrantsNothingUntilItIsArmedAgain(t *testing.T) {
	q := newCore(t)
	q.mutex(2, "1")
	q.armed(1)
	q.armed(2)
	q.happens(2, driver.Event{Kind: driver.Lost})

	q.gone(1)

	assert.Empty(t, q.holders())
	q.armed(2)
	assert.Equal(t, []int64{2}, q.holders())
}

// Two are ahead, and it is not known whether they are all. The second nearest goes; the
// read that follows shows that the nearest is the only one; its end grants.
func TestReadWhileTwoAreAheadSavesTheOneAtTheHandOff(t *testing.T) {
	q := newCore(t)
	q.join(9, rule.Mutex(), driver.Exclusive, "... 6 7", 3)
	assert.Equal(t, "watch 7, watch 6", q.since(), "the pace is not known, so the queue may be slow")
	q.armed(7)

	q.gone(6)

	assert.Equal(t, "cancel 6, read soon, read", q.since())
	q.send()
	q.answer("7 9")
	assert.Equal(t, "watch 9", q.since())
	q.armed(9)
	q.gone(7)
	assert.Equal(t, "cancel 7", q.since(), "nothing is read")
	assert.Equal(t, []int64{9}, q.holders())
}

func TestFastQueueWatchesThePredecessorOnlyAndReadsAtTheHandOff(t *testing.T) {
	q := newCore(t)
	q.pace = slow - 1
	q.join(9, rule.Mutex(), driver.Exclusive, "... 6 7", 3)
	assert.Equal(t, "watch 7", q.since())

	q.gone(7)

	assert.Equal(t, "cancel 7, read", q.since())
	q.send()
	q.answer("9")
	assert.Equal(t, []int64{9}, q.holders())
}

func TestPaceIsThatOfTheLastWait(t *testing.T) {
	q := newCore(t)
	q.mutex(3, "1 2")
	q.clock += driver.Instant(10 * time.Millisecond)
	q.armed(3)
	q.gone(1)
	q.gone(2)
	require.Equal(t, []int64{3}, q.holders())

	assert.Equal(t, 5*time.Millisecond, q.pace)
}

// The view shows 1, which is known to have gone since. That it shows 2 does not prove that
// 2 lived when 1 went.
func TestLateViewProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		then    driver.EventKind
		holders []int64
	}{"alive": {driver.Armed, []int64{2}}, "gone": {driver.Gone, nil}} {
		t.Run(name, func(t *testing.T) {
			q := newCore(t)
			en := q.mutex(2, "1")
			q.armed(1)
			q.want(en)
			q.send()
			q.gone(1)

			q.answer("1 2")

			assert.Empty(t, q.holders())
			assert.Negative(t, q.pic.index(ref(1)), "an old view does not bring back what is gone")
			q.happens(2, driver.Event{Kind: c.then})
			assert.Equal(t, c.holders, q.holders())
		})
	}
}

func TestViewGrantsWhatItShows(t *testing.T) {
	q := newCore(t)
	q.join(9, rule.Mutex(), driver.Exclusive, "...", 3)
	q.send()
	assert.Equal(t, driver.ReadRequest{Queue: "n", From: 9, Upto: 9, Nearest: 2}, q.sent.ReadRequest)

	q.answer("9")

	assert.Equal(t, []int64{9}, q.holders())
}

func TestAnswerToLeaveGrantsTheNextOwnEntry(t *testing.T) {
	for name, c := range map[string]struct {
		left    driver.Left
		event   bool // something else was learned by an event meanwhile
		asked   string
		holders []int64
	}{
		"deleted":                          {driver.Deleted, false, "", []int64{3}},
		"deleted, and an event came first": {driver.Deleted, true, "watch 3", nil},
		"perhaps by an earlier attempt":    {driver.Unclear, false, "doubt, read", nil},
		"it was gone":                      {driver.WasGone, false, "doubt, read", nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := newCore(t)
			q.mutex(1, "")
			q.mutex(3, "1")
			if en := q.entries[3]; en.guard != nil { // as in a long queue
				en.guard.stop()
				en.guard = nil
			}
			answered := q.leaves(1)
			if c.event {
				q.queue.gone(ref(2), false, byEvent)
			}
			q.since()

			answered(c.left)

			assert.Equal(t, c.asked, q.since())
			assert.Equal(t, c.holders, q.holders())
		})
	}
}

// 1 is released, and the end of 2, which held behind it, is reported before the answer to
// that. So 1 is found gone. The answer shows whether the session has deleted it.
func TestAnswerToLeaveResolvesTheDoubtAboutItsEntry(t *testing.T) {
	for name, c := range map[string]struct {
		left    driver.Left
		asked   string
		holders []int64
	}{
		"deleted":                       {driver.Deleted, "cancel 3", []int64{5}},
		"perhaps by an earlier attempt": {driver.Unclear, "cancel 3, read", nil},
		"it was gone":                   {driver.WasGone, "cancel 3, read", nil},
		"not answered yet":              {0xff, "cancel 3, read", []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newCore(t)
			q.mutex(1, "")
			q.mutex(5, "1 2 3")
			q.armed(2)
			q.armed(3)
			answered := q.leaves(1)
			q.happens(2, driver.Event{Kind: driver.Gone, First: true})
			q.armed(5)
			if c.left != 0xff {
				answered(c.left)
			}
			q.since()

			q.happens(3, driver.Event{Kind: driver.Gone, First: true})

			assert.Equal(t, c.asked, q.since())
			assert.Equal(t, c.holders, q.holders())
		})
	}
}

// In a chain in one process nothing is asked of the service but the releases.
func TestChainInOneProcessAsksNothing(t *testing.T) {
	const n = 1000
	q := newCore(t)
	q.mutex(1, "")
	for place := int64(2); place <= n; place++ {
		q.join(place, rule.Mutex(), driver.Exclusive, fmt.Sprint("... ", place-1), int(place-1))
	}
	q.since()
	for place := int64(1); place < n; place++ {
		require.Equal(t, []int64{place}, q.holders())
		q.leaves(place)(driver.Deleted)
	}
	assert.Equal(t, []int64{n}, q.holders())
	for asked := range strings.SplitSeq(q.since(), ", ") {
		assert.NotContains(t, asked, "read")
	}
}

func TestFirstLetsTheOneBehindHold(t *testing.T) {
	q := newCore(t)
	q.told = true
	q.join(9, rule.Mutex(), driver.Exclusive, "... 6 7", 3)
	assert.Equal(t, "watch 7, watch 9", q.since())
	q.armed(9)

	q.happens(7, driver.Event{Kind: driver.Gone, First: true})

	assert.Equal(t, []int64{9}, q.holders())
}

// Nobody was ahead of 7 at some time: so 5, which is ahead of it in the picture, is gone.
func TestFirstShowsThatOwnEntriesAheadAreGone(t *testing.T) {
	q := newCore(t)
	en := q.join(5, rule.Mutex(), driver.Exclusive, "... 4", 3)
	q.join(9, rule.Mutex(), driver.Exclusive, "5 7", 2)
	q.armed(9)

	q.happens(7, driver.Event{Kind: driver.Gone, First: true})

	assert.True(t, en.lost)
	assert.Empty(t, q.holders(), "the session is in doubt")
}

func TestJoinFindsOwnEntryGone(t *testing.T) {
	q := newCore(t)
	q.mutex(1, "")
	en := q.join(2, rule.Mutex(), driver.Exclusive, "... 1", 1)

	q.mutex(3, "1")

	assert.True(t, en.lost)
	assert.Equal(t, uint64(1), q.entries[3].shown, "the join shows that its own entry lived then")
}

// A read shows an own entry before the answer to its join is there.
func TestEntryThatWasTakenForAnothersIsAdopted(t *testing.T) {
	q := newCore(t)
	q.join(5, rule.Mutex(), driver.Exclusive, "... 3", 2)
	q.armed(3)
	require.NotNil(t, q.watches.get(ref(3).Target()))

	en := q.join(3, rule.Mutex(), driver.Exclusive, "...", 1)

	assert.Equal(t, q.watches.get(ref(3).Target()), en.guard)
	assert.True(t, en.guard.armed)
	q.gone(3)
	assert.True(t, en.lost)
}

func TestReadersAreGrantedByTheMarkOfTheWriter(t *testing.T) {
	for name, c := range map[string]struct {
		event driver.Event
		armed bool // the own watch is
		holds bool
	}{
		"Armed shows it":            {driver.Event{Kind: driver.Armed, Marks: driver.MarkShared}, true, true},
		"Changed shows it":          {driver.Event{Kind: driver.Changed, Marks: driver.MarkShared}, true, true},
		"own watch not armed":       {driver.Event{Kind: driver.Changed, Marks: driver.MarkShared}, false, false},
		"changed in other respects": {driver.Event{Kind: driver.Changed}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := newCore(t)
			q.join(2, rule.ReadWrite(), driver.Shared, "1", 1)
			if c.armed {
				q.armed(2)
			}

			q.happens(1, c.event)

			assert.Equal(t, c.holds, len(q.holders()) == 1)
		})
	}
}

func TestAnswerToDowngradeGrantsTheReadersInThisProcess(t *testing.T) {
	q := newCore(t)
	q.join(1, rule.ReadWrite(), driver.Exclusive, "", 0)
	q.join(2, rule.ReadWrite(), driver.Shared, "1", 1)
	q.join(3, rule.ReadWrite(), driver.Shared, "1 2r", 2)
	before := q.hearsay

	q.marked(ref(1), driver.MarkShared, q.acknowledged(before))

	assert.Equal(t, []int64{1, 2, 3}, q.holders())
}

// The answer to a join is from before the downgrade, of which the answer came first.
func TestJoinFromBeforeADowngradeProvesNothing(t *testing.T) {
	q := newCore(t)
	q.join(1, rule.ReadWrite(), driver.Exclusive, "", 0)
	q.marked(ref(1), driver.MarkShared, byLeave)

	q.join(2, rule.ReadWrite(), driver.Shared, "1", 1)

	assert.Equal(t, []int64{1}, q.holders())
	q.armed(2)
	assert.Equal(t, []int64{1, 2}, q.holders())
}

func TestPermitsAreGrantedByAReadOnly(t *testing.T) {
	q := newCore(t)
	q.join(2, rule.Semaphore(), driver.Weighted, "1p* limit 1", 1)
	assert.Equal(t, "watch holders, watch limit", q.since())
	holders, limit := q.watches.get(driver.Target{Kind: driver.OfHolders, Queue: "n"}), q.watches.get(driver.Target{Kind: driver.OfRecord, Queue: "n", Record: recordLimit})
	q.event(holders, driver.Event{Kind: driver.Armed})
	assert.Empty(t, q.since(), "what is not armed yet would have to be read again")
	q.event(limit, driver.Event{Kind: driver.Armed})
	assert.Equal(t, "read", q.since())
	q.send()
	q.answer("1p* 2p limit 1")
	assert.Empty(t, q.since())

	q.event(holders, driver.Event{Kind: driver.Changed})

	assert.Equal(t, "read", q.since())
	q.send()
	assert.Zero(t, q.sent.Nearest, "of all that are ahead")
	assert.True(t, q.sent.Marks)
	q.answer("2p limit 1")
	assert.Equal(t, []int64{2}, q.holders())
}

// The view is from before an end that was learned by an event or by a Leave. What fits
// without that entry need not have fitted at the limit that the view shows.
func TestLateViewGrantsNoPermits(t *testing.T) {
	for _, how := range []proof{noProof, byEvent, byLeave} {
		q := newCore(t)
		en := q.join(2, rule.Semaphore(), driver.Weighted, "1p limit 1", 1)
		q.want(en)
		q.send()
		q.queue.gone(ref(1), false, how)

		q.answer("1p 2p limit 1")

		assert.Empty(t, q.holders())
		q.send()
		q.answer("2p limit 1")
		assert.Equal(t, []int64{2}, q.holders())
	}
}

func TestLimitThatIsGoneIsAnError(t *testing.T) {
	q := newCore(t)
	en := q.join(2, rule.Semaphore(), driver.Weighted, "1p limit 1", 1)
	q.want(en)
	q.send()

	q.answer("1p 2p")

	assert.ErrorIs(t, en.g.refusal, errNoLimit)
}

func TestLimitThatCannotBeReadIsAnError(t *testing.T) {
	q := newCore(t)
	en := q.join(2, rule.Semaphore(), driver.Weighted, "1p limit 1", 1)
	q.want(en)
	q.send()

	q.answer("1p 2p limit 08")

	require.ErrorIs(t, en.g.refusal, session.ErrRefused)
	assert.ErrorContains(t, en.g.refusal, `"limit" of queue "n" is "08"`)
}

// The answer to a join is late, and shows a limit from before the one that is known.
func TestOldLimitDoesNotReplaceANewerOne(t *testing.T) {
	q := newCore(t)
	q.limit = driver.Record{Value: []byte("5"), Version: 2, Token: 100}

	q.join(2, rule.Semaphore(), driver.Weighted, "1p limit 1", 1)

	assert.Equal(t, int64(5), limitIn(q.limit))
	assert.Empty(t, q.holders(), "that the join shows the entry proves nothing of the moment of the newer limit")
	assert.Equal(t, "read", q.since())
}

func TestEventOfACancelledWatchIsIgnored(t *testing.T) {
	q := newCore(t)
	en := q.mutex(2, "1")
	w := q.watches.get(ref(1).Target())
	q.refuse(en, errMustWait)
	q.since()

	q.event(w, driver.Event{Kind: driver.Gone})

	assert.Empty(t, q.since())
	assert.GreaterOrEqual(t, q.pic.index(ref(1)), 0)
}

func TestEntryThatStaysForEverIsAnError(t *testing.T) {
	q := newCore(t)
	en := &entry{g: &group{hooks: silent{}, done: make(chan struct{})}, rule: rule.Mutex()}
	v := view(t, "1")
	v.Count, v.Entries[0].Unleased = 1, true

	q.joined(en, driver.Joined{Entry: driver.Entry{Ref: ref(2)}, View: v}, 0)

	assert.ErrorContains(t, en.g.refusal, "stays until an operator deletes it")
}

// A waiter comes to share a watch that is armed: what others have learned by it, this one
// has not read.
func TestWaiterThatSharesAnArmedWatchReads(t *testing.T) {
	q := newCore(t)
	q.join(2, rule.Semaphore(), driver.Weighted, "1p* limit 1", 1)
	for target, w := range q.watches.all() {
		if target.Kind != driver.OfEntry {
			q.event(w, driver.Event{Kind: driver.Armed})
		}
	}
	q.send()
	q.answer("1p* 2p limit 1")

	en := q.join(3, rule.Semaphore(), driver.Weighted, "2p limit 1", 1)

	assert.True(t, en.wants)
}

// The view does not reach as far as 2, which is known to have gone since.
func TestPartialViewProvesNothingOfWhatEndedBeforeIt(t *testing.T) {
	q := newCore(t)
	en := q.join(9, rule.ReadWrite(), driver.Shared, "2 4r 5r", 3)
	q.want(en)
	q.send()
	q.gone(2)
	q.since()

	q.answer("... 5r 9r")

	assert.Empty(t, q.holders())
	q.armed(9)
	assert.Equal(t, []int64{9}, q.holders())
}

// The join shows how many are ahead, and not which. What is known of them is newer.
func TestPartialJoinProvesNothingOfWhatEndedSince(t *testing.T) {
	q := newCore(t)
	q.join(3, rule.Mutex(), driver.Exclusive, "1 2", 2)
	q.leaves(3)(driver.Deleted)
	q.queue.gone(ref(1), false, byEvent)
	q.queue.gone(ref(2), false, byEvent)

	q.join(4, rule.Mutex(), driver.Exclusive, "...", 3)

	assert.Empty(t, q.holders())
}

// The session was revoked while the Leave of 1 was under way, which finds 1 gone. The end of
// 2, which is older, must not grant 3, whose own end is on its way.
func TestLeaveThatFoundTheEntryGoneStopsGrantsByEvents(t *testing.T) {
	for _, l := range []driver.Left{driver.Unclear, driver.WasGone} {
		q := newCore(t)
		q.mutex(1, "")
		q.mutex(3, "1 2")
		q.armed(2)
		q.armed(3)
		q.leaves(1)(l)

		q.gone(2)

		assert.Empty(t, q.holders())
		q.send()
		q.answer("3")
		assert.Equal(t, []int64{3}, q.holders())
	}
}

// A view lacks 1, which was asked to leave; the answer to that is still to come.
func TestViewWithoutALeavingEntryRaisesADoubt(t *testing.T) {
	q := newCore(t)
	q.mutex(1, "")
	en := q.mutex(2, "1")
	other := q.mutex(4, "1 2 3")
	q.leaves(1)
	q.want(en)
	q.send()

	q.answer("2")

	assert.Equal(t, []int64{1, 2}, q.holders(), "the view shows 2")
	assert.Less(t, other.shown, q.doubted.n, "it does not show 4")
}

// A view shows a mark to one waiter. The other one, which the view did not reach, is decided
// by the event.
func TestMarkThatAViewHasShownWakesTheOthers(t *testing.T) {
	q := newCore(t)
	en := q.join(2, rule.ReadWrite(), driver.Shared, "1", 1)
	q.join(3, rule.ReadWrite(), driver.Shared, "1 2r", 2)
	q.armed(3)
	q.want(en)
	q.send()
	q.answer("1d 2r")
	require.Equal(t, []int64{2}, q.holders())

	q.happens(1, driver.Event{Kind: driver.Changed, Marks: driver.MarkShared})

	assert.Equal(t, []int64{2, 3}, q.holders())
}

// The session was revoked. Its join of 1 is not answered yet, so 1 is taken for another's.
func TestEndDuringAJoinMayBeThatOfAnOwnEntry(t *testing.T) {
	q := newCore(t)
	q.mutex(2, "1")
	q.armed(2)
	q.joins++

	q.gone(1)

	assert.Empty(t, q.holders())
	q.send()
	q.answer("2")
	assert.Equal(t, []int64{2}, q.holders())
}

// What stands in a ledger may have been written by any program.
func TestAReleaseStrikesWhateverStandsInTheLedger(t *testing.T) {
	g := &group{records: records{ledgers: make([]ledger, 1)}, entries: []*entry{{Entry: &driver.Entry{}}}}
	for _, value := range []string{"", "h:of another", "{}", strings.Repeat("x", 100)} {
		l := &g.ledgers[0]
		*l = ledger{kept: true}
		assert.True(t, g.account(l, g.entries[0], driver.Record{Value: []byte(value), Version: 7, Token: 7}), "it stays until a holder releases")
		assert.Equal(t, door.PastDied, l.past)

		op, strikes := l.op(strikeAny)

		assert.True(t, strikes, "%q", value)
		assert.Equal(t, driver.Op{Record: recordLedger, If: driver.At(7), Optional: true}, op)
		_, strikes = l.op(strikeOwn)
		assert.False(t, strikes, "it is the name of another")
	}
}

// limitIn returns the limit that a record has, 0 if it has none.
func limitIn(r driver.Record) int64 {
	limit, _ := strconv.ParseInt(string(r.Value), 10, 64)
	return limit
}
