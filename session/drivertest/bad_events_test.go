package drivertest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// badEvents are the defects of watches, and of what they tell.
var badEvents = []defect{
	{"watch loses gone", "watch/WatchTellsALeave", loses(driver.Gone)},
	{"watch is never armed", "watch/WatchTellsADeletionByHand", loses(driver.Armed)},
	{"watch loses changes", "watch/WatchTellsChangesToWhoWantsThem", loses(driver.Changed)},
	{"watch swallows broken", "watch/WatchTellsOnAfterACut", loses(driver.Broken)},
	{"admission is not told", "admit/AnAdmissionIsShownAndTold", loses(driver.Changed)},
	{"share is not told", "share/WhoStandsBehindIsTold", loses(driver.Changed)},
	{"watch is dead after a cut", "watch/WatchMissesNothingOverACut", deadAfterCut},
	{"a line swallows broken", "aspect/ALineIsWatchedOverACut", deadAfterCut},
	{"a limit is not told", "limit/ANewLimitIsToldToWhoWatches", asAspect(driver.OfLimit, driver.OfAdmitted)},
	{"the end of a holder is not told", "admit/TheLeaveOfAHolderIsTold", asAspect(driver.OfAdmitted, driver.OfLimit)},
	{"everything wakes who waits in front", "admit/AReleaseIsToldOnceWhateverTheNumberOfWaiters", asAspect(driver.OfAdmitted, driver.OfLine)},
	// It says of an entry that is gone that nothing was missed.
	{"watch is armed since ever", "watch/WatchOnAnEntryThatIsGoneShowsIt", func(b *badBackend) {
		b.told(func(driver.WatchRequest) func(*driver.Event) bool {
			return func(ev *driver.Event) bool {
				ev.Rev = 0
				return true
			}
		})
	}},
	{"watch forgets since", "watch/WatchSinceTellsWhatWentBefore", func(b *badBackend) {
		b.watching(func(req *driver.WatchRequest) { req.Since = 0 })
	}},
	{"cancel is ignored", "watch/ACanceledWatchIsSilent", func(b *badBackend) {
		b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
			s.Watch(req, f)
			return func() {}
		}
	}},
	{"the watch of a line ends with it", "aspect/AWatchOfALineGoesOnAfterItIsEmpty", func(b *badBackend) {
		b.told(func(req driver.WatchRequest) func(*driver.Event) bool {
			over := false
			return func(ev *driver.Event) bool {
				if over {
					return false
				}
				if over = req.Of == driver.OfLine && ev.Kind == driver.Changed && len(memtest.Entries(b.st, req.Ref.Line)) == 0; over {
					ev.Kind = driver.Gone
				}
				return true
			}
		})
	}},
	{"an empty line is not watched", "aspect/AJoinOfAnEmptyLineIsToldToWhoWatchesTheLine", func(b *badBackend) {
		b.told(func(req driver.WatchRequest) func(*driver.Event) bool {
			blind := req.Of == driver.OfLine && len(memtest.Entries(b.st, req.Ref.Line)) == 0
			return func(ev *driver.Event) bool { return !blind || ev.Kind != driver.Changed }
		})
	}},
	{"an ask is told in the line", "asks/AnAskIsNotToldToWhoWatchesTheLine", func(b *badBackend) {
		b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
			stop := s.Watch(req, f)
			if req.Of != driver.OfLine {
				return stop
			}
			req.Ref.Line = driver.AskLine(req.Ref.Line)
			also := s.Watch(req, func(ev driver.Event) {
				if ev.Kind == driver.Changed {
					f(ev)
				}
			})
			return func() {
				stop()
				also()
			}
		}
	}},
	// There is a connection of its own for own entries, and it is slow.
	{"own events come late", "events/EventsComeInTheOrderOfTheStore", func(b *badBackend) {
		b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
			if !req.Own {
				return s.Watch(req, f)
			}
			return s.Watch(req, func(ev driver.Event) { time.AfterFunc(time.Millisecond, func() { f(ev) }) })
		}
	}},
	{"callbacks run together", "events/CallbacksRunOneAtATime", func(b *badBackend) {
		b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
			return s.Watch(req, func(ev driver.Event) { go f(ev) })
		}
	}},
	// It says that everything was told, and waits for nothing.
	{"leave overtakes what it has told", "events/AnAnswerToALeaveIsDatedOrComesBehindEarlierEvents", func(b *badBackend) {
		after(&b.leave, func(_ driver.LeaveRequest, left *driver.Left) { left.Told = true })
	}},
	{"leave has no place among the events", "events/AnAnswerToALeaveIsDatedOrComesBehindEarlierEvents", func(b *badBackend) {
		after(&b.leave, func(_ driver.LeaveRequest, left *driver.Left) { left.Rev = 0 })
	}},
	{"a release is not told", "tell/AReleaseIsTold", func(b *badBackend) {
		before(&b.leave, func(req *driver.LeaveRequest) { req.Held = false })
	}},
	{"a waiter leaves word", "tell/AWaitersLeaveIsNoRelease", func(b *badBackend) {
		before(&b.leave, func(req *driver.LeaveRequest) { req.Held = true })
	}},
	{"who did not ask is told", "tell/WhoDidNotAskIsNotTold", func(b *badBackend) {
		b.watching(func(req *driver.WatchRequest) { req.Tell = true })
	}},
	{"an operator leaves word", "tell/ADeletionByHandIsNoRelease", func(b *badBackend) {
		b.heldIf(func(ref driver.Ref, _ driver.Event) bool { return b.lives(ref) })
	}},
	{"a dead session leaves word", "tell/AnExpiryIsNoRelease", func(b *badBackend) {
		b.heldIf(func(ref driver.Ref, _ driver.Event) bool { return !b.lives(ref) })
	}},
	{"close leaves word", "tell/ACloseIsNoRelease", func(b *badBackend) {
		b.close = func(s driver.Session, ctx context.Context) error {
			names, err := b.Backend.Names(ctx, "")
			for _, name := range names {
				for _, e := range memtest.Entries(b.st, name) {
					if e.Session == s.ID() {
						_, err = s.Leave(ctx, driver.LeaveRequest{Ref: e.Ref, Held: true})
					}
				}
			}
			if err != nil {
				return err
			}
			return s.Close(ctx)
		}
	}},
	// It leaves word before the deletion, not with it.
	{"an attempt leaves word", "tell/AnAttemptToReleaseIsNoRelease", func(b *badBackend) {
		before(&b.leave, func(req *driver.LeaveRequest) {
			if req.Held {
				b.keep(req.Ref)
			}
		})
		b.heldIf(func(ref driver.Ref, _ driver.Event) bool { return b.kept(ref) })
	}},
	// When the request is sent again, it leaves word for who is first then.
	{"a retry leaves word of another", "tell/AReleaseSurvivesALostReply", func(b *badBackend) {
		b.leave = func(s driver.Session, ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
			retried := b.retries(fault.Leave)
			left, err := s.Leave(ctx, req)
			if line := memtest.Entries(b.st, req.Ref.Line); len(line) > 0 && retried() {
				b.keep(line[0].Ref)
			}
			return left, err
		}
		b.heldIf(func(ref driver.Ref, _ driver.Event) bool { return b.kept(ref) })
	}},
	{"a word counts for its line", "tell/TheWordOfOneEntryIsNotThatOfAnother", wordOf(func(r driver.Ref) string { return r.Line })},
	{"a word counts for its key", "tell/TheWordOfOneEntryIsNotThatOfAnother", wordOf(func(r driver.Ref) string { return r.Key })},
	// It takes it for a release when somebody joined before the word was read,
	// since that would have removed it.
	{"a lost word counts", "tell/JoinsAfterAReleaseDoNotMakeItWrong", func(b *badBackend) {
		b.heldIf(func(ref driver.Ref, ev driver.Event) bool {
			line := memtest.Entries(b.st, ref.Line)
			return len(line) > 0 && line[len(line)-1].Place > ev.Rev
		})
	}},
}

func loses(kind driver.EventKind) func(b *badBackend) {
	return func(b *badBackend) {
		b.told(func(driver.WatchRequest) func(*driver.Event) bool {
			return func(ev *driver.Event) bool { return ev.Kind != kind }
		})
	}
}

func deadAfterCut(b *badBackend) {
	b.told(func(driver.WatchRequest) func(*driver.Event) bool {
		dead := false
		return func(ev *driver.Event) bool {
			dead = dead || ev.Kind == driver.Broken
			return !dead
		}
	})
}

// asAspect watches another aspect than was asked for.
func asAspect(asked, instead driver.Aspect) func(b *badBackend) {
	return func(b *badBackend) {
		b.watching(func(req *driver.WatchRequest) {
			if req.Of == asked {
				req.Of = instead
			}
		})
	}
}

// heldIf plants a defect into the answer of Tell: it is yes if also says so.
func (b *badBackend) heldIf(also func(ref driver.Ref, ev driver.Event) bool) {
	b.told(func(req driver.WatchRequest) func(*driver.Event) bool {
		return func(ev *driver.Event) bool {
			if req.Tell && ev.Kind == driver.Gone {
				ev.Held = also(req.Ref, *ev) || ev.Held
			}
			return true
		}
	})
}

// lives reports whether the session of an entry does.
func (b *badBackend) lives(ref driver.Ref) bool {
	return slices.ContainsFunc(b.st.Sessions(), func(id string) bool { return strings.Contains(ref.Key, "#"+id+".") })
}

// wordOf takes a word for that of every entry that looks the same.
func wordOf(same func(ref driver.Ref) string) func(b *badBackend) {
	return func(b *badBackend) {
		said := make(map[string]bool)
		var mu sync.Mutex
		b.heldIf(func(ref driver.Ref, ev driver.Event) bool {
			mu.Lock()
			defer mu.Unlock()
			before := said[same(ref)]
			said[same(ref)] = before || ev.Held
			return before
		})
	}
}
