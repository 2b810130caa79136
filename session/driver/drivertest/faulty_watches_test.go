package drivertest_test

import (
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// faultyWatches are faults of watches, and of what they report.
var faultyWatches = []planted{
	{"watch loses gone", "watch/WatchReportsTheEndByLeave", loses(driver.Gone)},
	{"watch is never armed", "watch/WatchReportsTheEndByDeletion", loses(driver.Armed)},
	{"watch loses changes", "watch/WatchReportsThatDataWasWritten", loses(driver.Changed)},
	{"watch swallows lost", "watch/WatchMissesNothingOverACutOfReplies", loses(driver.Lost)},
	{"a mark is not reported", "marks/AMarkIsReported", loses(driver.Changed)},
	{"watch is dead after a cut", "watch/WatchMissesNothingOverACutOfBoth", deadAfterCut},
	{"a target is dead after a cut", "target/WhatHappensToARecordIsReportedOverACutOfReplies", deadAfterCut},
	{"events have no marks", "marks/AMarkIsReported", func(b *faulty) {
		b.reported(func(driver.Target) func(*driver.Event) bool {
			return func(ev *driver.Event) bool {
				ev.Marks = 0
				return true
			}
		})
	}},
	{"a mark is not shown when armed", "marks/AMarkIsReported", func(b *faulty) {
		b.reported(func(driver.Target) func(*driver.Event) bool {
			return func(ev *driver.Event) bool {
				if ev.Kind == driver.Armed {
					ev.Marks = 0
				}
				return true
			}
		})
	}},
	// It is armed when the service has the watch, whether the entry is there or not.
	{"what is gone is armed", "watch/AnEntryThatWasGoneByDeletionIsNeverArmed", armsAll},
	{"what a later entry has the key of is armed", "watch/AnEntryWhoseKeyIsUsedAgainIsNeverArmed", armsAll},
	{"watch goes by the key", "watch/AnEntryWhoseKeyIsUsedAgainIsNeverArmed", func(b *faulty) {
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			for _, e := range memtest.Entries(b.st, t.Queue) {
				if t.Kind == driver.OfEntry && e.Key == t.Ref.Key {
					t = e.Target()
				}
			}
			return sound(s, t, f)
		}
	}},
	{"cancel is ignored", "watch/ACanceledWatchIsSilent", ignoresCancel},
	{"cancel of a target is ignored", "target/ACanceledWatchOfATargetIsSilent", ignoresCancel},
	{"callbacks run together", "events/CallbacksRunOneAtATime", func(b *faulty) {
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			return sound(s, t, func(ev driver.Event) { go f(ev) })
		}
	}},
	{"an event is late for a callback", "events/ACallbackMayWatchAndCancel", func(b *faulty) {
		var mu sync.Mutex
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			if !mu.TryLock() {
				return func() {} // it is watching
			}
			defer mu.Unlock()
			return sound(s, t, func(ev driver.Event) {
				mu.Lock()
				defer mu.Unlock()
				f(ev)
			})
		}
	}},
	{"a record is not reported", "target/WhatHappensToARecordIsReported", asTarget(driver.OfRecord, driver.OfHolders)},
	{"holders are not reported", "target/WhatHappensToHoldersIsReported", asTarget(driver.OfHolders, driver.OfRecord)},
	{"a queue is its holders", "target/WhatHappensToAQueueIsReported", asTarget(driver.OfQueue, driver.OfHolders)},
	{"the watch of a queue ends with it", "target/WhatHappensToAQueueIsReported", func(b *faulty) {
		b.reported(func(t driver.Target) func(*driver.Event) bool {
			over := false
			return func(ev *driver.Event) bool {
				if over {
					return false
				}
				over = t.Kind == driver.OfQueue && ev.Kind == driver.Changed && len(memtest.Entries(b.st, t.Queue)) == 0
				return true
			}
		})
	}},
	{"an empty queue is not watched", "target/WhatHappensToAQueueOfYieldRequestsIsReported", func(b *faulty) {
		b.reported(func(t driver.Target) func(*driver.Event) bool {
			blind := t.Kind == driver.OfQueue && len(memtest.Entries(b.st, t.Queue)) == 0
			return func(ev *driver.Event) bool { return !blind || ev.Kind != driver.Changed }
		})
	}},
	{"a yield request is reported to the lock", "yield/AYieldRequestIsNotReportedToWatchesOfTheLock", func(b *faulty) {
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			if _, asked := driver.AskedQueue(t.Queue); asked || t.Kind != driver.OfQueue {
				return sound(s, t, f)
			}
			requests, stop := t, func() {}
			requests.Queue = driver.AskQueue(t.Queue)
			also := sound(s, requests, func(ev driver.Event) {
				switch ev.Kind {
				case driver.Armed: // no request escapes it that is made after f is armed
					stop()
					stop = sound(s, t, f)
				case driver.Changed:
					f(ev)
				case driver.Gone, driver.Lost:
				}
			})
			return func() {
				also()
				stop()
			}
		}
	}},
	{"first is not reported", "first/AnEntryThatWasFirstIsReportedSo", func(b *faulty) {
		b.leaving(func(req *driver.LeaveRequest) { req.First = false })
	}},
	{"a waiter was first", "first/TheLeaveOfAWaiterIsNotThatOfTheFirst", func(b *faulty) {
		b.leaving(func(req *driver.LeaveRequest) { req.First = true })
	}},
	{"every deleted entry was first", "first/TheDeletionOfAWaiterIsNotThatOfTheFirst", goneIsFirst},
	{"whose session ended was first", "first/TheExpiryOfAWaiterIsNotThatOfTheFirst", goneIsFirst},
	{"first in one queue is first in all", "first/TheFirstOfOneQueueIsNotFirstInAnother", func(b *faulty) {
		b.leaving(func(req *driver.LeaveRequest) { req.First = true })
	}},
	{"a key was first", "first/AnEarlierEntryWasFirstAndNotThisOne", func(b *faulty) {
		firsts := shared(b)
		b.leaving(func(req *driver.LeaveRequest) {
			if req.First {
				firsts.Store(req.Ref.Key, true)
			}
		})
		b.reported(func(t driver.Target) func(*driver.Event) bool {
			return func(ev *driver.Event) bool {
				_, first := firsts.Load(t.Ref.Key)
				ev.First = first && ev.Kind == driver.Gone
				return true
			}
		})
	}},
	{"watches swallow what is new after a cut", "watch/WatchBegunWhileCutIsArmedAfterIt", func(b *faulty) {
		b.reported(func(driver.Target) func(*driver.Event) bool {
			born := time.Now()
			return func(ev *driver.Event) bool { return ev.Kind != driver.Armed || time.Since(born) < 100*time.Millisecond }
		})
	}},
}

// keep is what clients of one store have in common.
var keep sync.Map

func shared(b *faulty) *sync.Map {
	m, _ := keep.LoadOrStore(b.st, &sync.Map{})
	return m.(*sync.Map)
}

func armsAll(b *faulty) {
	b.reported(func(driver.Target) func(*driver.Event) bool {
		first := true
		return func(ev *driver.Event) bool {
			if first && ev.Kind == driver.Gone {
				ev.Kind = driver.Armed
			}
			first = false
			return true
		}
	})
}

func deadAfterCut(b *faulty) {
	b.reported(func(driver.Target) func(*driver.Event) bool {
		dead := false
		return func(ev *driver.Event) bool {
			dead = dead || ev.Kind == driver.Lost
			return !dead
		}
	})
}

func ignoresCancel(b *faulty) {
	sound := b.watch
	b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
		sound(s, t, f)
		return func() {}
	}
}

func goneIsFirst(b *faulty) {
	b.reported(func(driver.Target) func(*driver.Event) bool {
		return func(ev *driver.Event) bool {
			ev.First = ev.Kind == driver.Gone
			return true
		}
	})
}

// asTarget watches another kind of target.
func asTarget(kind, other driver.TargetKind) func(b *faulty) {
	return func(b *faulty) {
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			if t.Kind == kind {
				t.Kind = other
			}
			return sound(s, t, f)
		}
	}
}
