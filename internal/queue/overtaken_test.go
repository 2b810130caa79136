package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

// TestAnAnswerWithoutAPlaceAmongTheEventsVouchesForNobody: who waits behind one
// who leaves, and behind another, has its own watch to prove that it lives. What
// that proves when the other goes depends on where the answer stood.
func TestAnAnswerWithoutAPlaceAmongTheEventsVouchesForNobody(t *testing.T) {
	const before, after = 4, 6 // the events round a deletion at 5
	for name, c := range map[string]struct {
		left  driver.Left
		heard int64
		want  bool
	}{
		"dated, and the event is older":  {driver.Left{Rev: 5}, before, false},
		"dated, and the event is newer":  {driver.Left{Rev: 5}, after, true},
		"everything before was told":     {driver.Left{Told: true}, 0, true},
		"neither dated nor told":         {driver.Left{}, 0, false},
		"neither, where events are":      {driver.Left{}, after, false},
		"it was gone before":             {driver.Left{Gone: true, Told: true}, 0, false},
		"it was gone before, and a date": {driver.Left{Gone: true, Rev: 5}, after, false},
	} {
		t.Run(name, func(t *testing.T) {
			ln := &line{e: &engine{ordered: true}, name: "n", seats: map[driver.Ref]*seat{}, subs: map[spot]*sub{}}
			entry := func(place int64) driver.Entry {
				return driver.Entry{Ref: driver.Ref{Line: "n", Place: place}, Mode: driver.Exclusive}
			}
			leaves := &seat{ln: ln, entry: entry(1), rule: Mutex(), state: held, leaving: true}
			waits := &seat{ln: ln, entry: entry(3), rule: Mutex(), rev: 3, own: ownEye{armed: true}}
			waits.ahead = Ahead{Entries: []driver.Entry{entry(1), entry(2)}, Complete: true}
			ln.seats[leaves.entry.Ref], ln.seats[waits.entry.Ref] = leaves, waits
			for place := range int64(2) {
				b := &sub{spot: spot{ref: entry(place + 1).Ref}, armed: true, seats: []*seat{waits}}
				ln.subs[b.spot], waits.subs = b, append(waits.subs, b)
			}

			leaves.gone(nil, c.left)
			ln.hear(driver.Event{Kind: driver.Gone, Rev: c.heard})

			assert.Len(t, waits.ahead.Entries, 1)
			assert.Equal(t, c.want, ln.vouch(waits))
		})
	}
}

// TestAViewFromBeforeARevocationGrantsNothing: a revoked session loses all entries at
// one revision. If the event of the first comes while a view from before is on its way,
// that view shows the second, which is gone too.
func TestAViewFromBeforeARevocationGrantsNothing(t *testing.T) {
	const revoked = 5
	ln := &line{e: &engine{ordered: true}, name: "n", seats: map[driver.Ref]*seat{}, subs: map[spot]*sub{}, looking: true}
	entry := func(place int64) driver.Entry {
		return driver.Entry{Ref: driver.Ref{Line: "n", Place: place}, Mode: driver.Exclusive}
	}
	holds := &seat{ln: ln, entry: entry(1), rule: Mutex(), state: held}
	waits := &seat{ln: ln, entry: entry(2), rule: Mutex(), rev: 2, own: ownEye{armed: true}, done: make(chan struct{}), need: 2}
	waits.ahead = Ahead{Entries: []driver.Entry{entry(1)}, Complete: true}
	ln.seats[holds.entry.Ref], ln.seats[waits.entry.Ref] = holds, waits
	b := &sub{spot: spot{ref: holds.entry.Ref}, armed: true, seats: []*seat{waits}}
	ln.subs[b.spot], waits.subs = b, []*sub{b}

	ln.hear(driver.Event{Kind: driver.Gone, Rev: revoked})
	holds.last = revoked
	ln.remove(holds, unsure)
	ln.learn(waits, driver.View{Rev: revoked - 1, Entries: []driver.Entry{entry(1), entry(2)}, Complete: true})

	assert.Equal(t, waiting, waits.state, "the view does not show whether the entry outlived the first one")
	assert.True(t, waits.wants, "a view from now on does")
}
