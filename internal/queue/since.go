package queue

import (
	"math"

	"github.com/fairlock/fairlock/session/driver"
)

// change is a change of an entry: that it has ended, or has a mark, and what the fact proves
// that has shown it.
type change struct {
	ended bool
	how   proof
}

// since is what is known that is newer than a view, in what concerns the entries of the view.
type since struct {
	events  int64 // the place of the first entry that an event has changed since; MaxInt64: none
	any     int64 // the place of the first entry that anything has changed since; MaxInt64: none
	weakest proof // what the events before that prove; byEvent if there are none
}

// changesSince returns what is known that is newer than a view, by the news since the view was asked
// for, and concerns the entries that it shows, or lacks before them.
func changesSince(news map[driver.Ref]change, v driver.View) since {
	s := since{events: math.MaxInt64, any: math.MaxInt64, weakest: byEvent}
	for i := range v.Entries {
		if c, ok := news[v.Entries[i].Ref]; ok {
			s.add(v.Entries[i].Place, c.how)
		}
	}
	if v.Complete || len(v.Entries) == 0 {
		return s
	}
	for ref, c := range news {
		if ref.Place < v.Entries[0].Place {
			s.add(ref.Place, c.how)
		}
	}
	return s
}

// add takes in a change of the entry at a place.
func (s *since) add(place int64, how proof) {
	s.any = min(s.any, place)
	if how != byLeave { // a change by this session proves that it lived at that moment
		s.events, s.weakest = min(s.events, place), min(s.weakest, how)
	}
}

// proves returns what the view proves of an entry, see Learned.
func (s since) proves(en *Entry) proof {
	switch {
	case en.Place > s.events:
		return s.weakest
	case en.Limited && en.Place > s.any:
		return byEvent
	}
	return byView
}
