package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// badJoins are the defects of calls that make and delete entries.
var badJoins = []defect{
	{"join counts one too few ahead", "order/PlacesRiseInTheOrderOfJoining", func(b *badBackend) {
		after(&b.join, func(_ driver.JoinRequest, j *driver.Joined) { j.Ahead = max(0, j.Ahead-1) })
	}},
	{"join knows nobody who is ahead", "order/JoinsAtOnceStandInOneOrder", func(b *badBackend) {
		after(&b.join, func(_ driver.JoinRequest, j *driver.Joined) { j.Known = []driver.Entry{j.Entry} })
	}},
	{"join takes the first for the nearest", "order/PlacesRiseInTheOrderOfJoining", func(b *badBackend) {
		after(&b.join, func(_ driver.JoinRequest, j *driver.Joined) { j.Near = true })
	}},
	{"tokens do not rise", "order/TokensRiseAfterTheLineWasEmpty", func(b *badBackend) {
		after(&b.join, func(_ driver.JoinRequest, j *driver.Joined) { j.Entry.Token = 7 })
	}},
	// What is read when the join was answered may lack what was ahead of it.
	{"join looks when it was made", "order/AnEntryDeletedBeforeItsAnswerHasNotBeenFirst", func(b *badBackend) {
		after(&b.join, func(req driver.JoinRequest, j *driver.Joined) {
			j.Known = slices.DeleteFunc(memtest.Entries(b.st, req.Line), func(e driver.Entry) bool { return e.Place >= j.Entry.Place })
			j.Ahead = len(j.Known)
		})
	}},
	{"join looks before it writes", "order/AloneItTakesOneRoundTrip", looksFirst},
	{"join looks first at a limit", "order/AloneItTakesOneRoundTripOfAnyKind", looksFirst},
	{"one entry for a session", "order/TwoEntriesOfASessionAreTwo", func(b *badBackend) {
		var mu sync.Mutex
		have := make(map[string]driver.Joined)
		b.join = func(s driver.Session, ctx context.Context, req driver.JoinRequest) (j driver.Joined, err error) {
			mu.Lock()
			defer mu.Unlock()
			j, ok := have[s.ID()+req.Line]
			if !ok {
				j, err = s.Join(ctx, req)
				have[s.ID()+req.Line] = j
			}
			return j, err
		}
	}},
	{"if-empty writes", "order/IfEmptyWritesNothingBehindOthers", func(b *badBackend) {
		b.join = func(s driver.Session, ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
			ifEmpty := req.IfEmpty
			req.IfEmpty = false
			j, err := s.Join(ctx, req)
			if err == nil && ifEmpty && j.Ahead > 0 {
				return driver.Joined{}, &driver.TakenError{Count: j.Ahead}
			}
			return j, err
		}
	}},
	{"unknown is told as not done", "cancel/AnUnknownOutcomeIsCalledUnknown", func(b *badBackend) {
		failed(&b.join, func(_ driver.Session, _ driver.JoinRequest, err error) error {
			if p := pending(err); p != nil {
				return p.Err
			}
			return err
		})
	}},
	{"settle lies", "cancel/AJoinCanceledWhileCutRepliesIsSettledAfterIt", func(b *badBackend) {
		failed(&b.join, func(_ driver.Session, _ driver.JoinRequest, err error) error {
			if p := pending(err); p != nil {
				p.Settle = func(context.Context) error { return nil }
			}
			return err
		})
	}},
	// It takes what it does not find for something that will not come.
	{"settle has no fence", "late/ALateJoinAfterSettleMakesNoEntry", func(b *badBackend) {
		failed(&b.join, func(s driver.Session, req driver.JoinRequest, err error) error {
			if p := pending(err); p != nil {
				p.Settle = func(context.Context) error {
					for _, e := range memtest.Entries(b.st, req.Line) {
						if e.Session == s.ID() {
							b.st.Delete(req.Line, e.Key)
						}
					}
					return nil
				}
			}
			return err
		})
	}},
	{"settle of several lies", "several/AJoinOfSeveralCanceledWhileCutRepliesIsSettled", func(b *badBackend) {
		failed(&b.joinAll, func(_ driver.Session, _ []driver.JoinRequest, err error) error {
			if p := pending(err); p != nil {
				p.Settle = func(context.Context) error { return nil }
			}
			return err
		})
	}},
	// The retry does not know its first request again.
	{"retry makes a second entry", "lost/AJoinSurvivesALostReply", func(b *badBackend) {
		b.join = func(s driver.Session, ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
			retried := b.retries(fault.Join)
			j, err := s.Join(ctx, req)
			if err == nil && retried() {
				return s.Join(ctx, req)
			}
			return j, err
		}
	}},
	{"retry takes itself for another", "lost/AJoinIfEmptySurvivesABrokenReply", func(b *badBackend) {
		b.join = func(s driver.Session, ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
			retried := b.retries(fault.Join)
			j, err := s.Join(ctx, req)
			if err == nil && req.IfEmpty && retried() {
				return driver.Joined{}, &driver.TakenError{First: j.Entry, Count: 1}
			}
			return j, err
		}
	}},
	{"leave says nil when gone", "leave/LeaveSaysGoneAfterADeletionByHand", func(b *badBackend) {
		failed(&b.leave, func(_ driver.Session, _ driver.LeaveRequest, err error) error { return unlessGone(err) })
	}},
	{"leave goes by the key alone", "leave/LeaveNeverDeletesALaterEntry", func(b *badBackend) {
		before(&b.leave, func(req *driver.LeaveRequest) { req.Ref = b.byKey(req.Ref).Ref })
	}},
	{"leave finds every probe alive", "leave/LeaveProbesAnotherEntry", func(b *badBackend) {
		after(&b.leave, func(_ driver.LeaveRequest, left *driver.Left) { left.Probed, left.Alive = true, true })
	}},
	// It does not remember what it has sent without an answer.
	{"leave takes its own deletion for gone", "lost/ALeaveCutShortIsFinishedByTheNext", func(b *badBackend) {
		unknown := make(map[driver.Ref]bool)
		failed(&b.leave, func(_ driver.Session, req driver.LeaveRequest, err error) error {
			if err == nil && unknown[req.Ref] {
				return driver.ErrGone
			}
			unknown[req.Ref] = err != nil
			return err
		})
	}},
	{"several joins are not one", "several/JoinsOfSeveralLinesStandInOneOrder", joinsOneByOne},
	{"a join of several is not all", "several/NothingIsMadeIfOneLineIsTaken", joinsOneByOne},
	{"too many lines are joined in parts", "several/AsManyLinesAsTheProfileSays", func(b *badBackend) {
		b.joinAll = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
			var all []driver.Joined
			for part := range slices.Chunk(reqs, b.Profile().MaxAll) {
				joined, err := s.JoinAll(ctx, part)
				if err != nil {
					return nil, err
				}
				all = append(all, joined...)
			}
			return all, nil
		}
	}},
	{"leave of several finds itself gone", "several/SeveralLinesSurviveALostReply", func(b *badBackend) {
		b.leaveAll = func(s driver.Session, ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
			retried := b.retries(fault.Leave)
			left, err := s.LeaveAll(ctx, reqs)
			for i := range left {
				left[i].Gone = left[i].Gone || retried()
			}
			return left, err
		}
	}},
	{"leave of several marks none", "several/EntriesThatWereGoneAreMarked", func(b *badBackend) {
		after(&b.leaveAll, func(_ []driver.LeaveRequest, left *[]driver.Left) {
			for i := range *left {
				(*left)[i].Gone = false
			}
		})
	}},
	{"evict goes by the key alone", "evict/EvictNeverDeletesALaterEntry", func(b *badBackend) {
		b.evict = func(ctx context.Context, e driver.Entry) error { return b.Backend.Evict(ctx, b.byKey(e.Ref)) }
	}},
	{"evict says nil when gone", "evict/EvictOfAnEntryThatIsGoneSaysSo", func(b *badBackend) {
		b.evict = func(ctx context.Context, e driver.Entry) error { return unlessGone(b.Backend.Evict(ctx, e)) }
	}},
	{"evict ends the session", "evict/EvictLeavesTheSessionAndItsOtherEntries", func(b *badBackend) {
		b.evict = func(ctx context.Context, e driver.Entry) error {
			err := b.Backend.Evict(ctx, e)
			if err == nil {
				b.st.Expire(e.Session)
			}
			return err
		}
	}},
	{"evict takes its own deletion for gone", "evict/EvictSurvivesALostReply", func(b *badBackend) {
		b.evict = func(ctx context.Context, e driver.Entry) error {
			retried := b.retries(fault.Leave)
			err := b.Backend.Evict(ctx, e)
			if err == nil && retried() {
				err = driver.ErrGone
			}
			return err
		}
	}},
	{"evict gives back", "evict/AnEvictedHolderHasNotGivenBack", func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) { req.Ledger = false })
		b.enter = func(driver.Session, context.Context, driver.Ref) (driver.Past, error) { return driver.PastClean, nil }
	}},
	{"evict leaves foreign entries", "evict/AnyEntryIsEvictedWhoeverOwnsIt", func(b *badBackend) {
		b.evict = func(ctx context.Context, e driver.Entry) error {
			if e.Foreign {
				return driver.ErrDenied
			}
			return b.Backend.Evict(ctx, e)
		}
	}},
}

func looksFirst(b *badBackend) {
	b.join = func(s driver.Session, ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
		if _, err := s.Look(ctx, driver.LookRequest{Line: req.Line, Upto: 1 << 62}); err != nil {
			return driver.Joined{}, err
		}
		return s.Join(ctx, req)
	}
}

func joinsOneByOne(b *badBackend) {
	b.joinAll = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
		all := make([]driver.Joined, 0, len(reqs))
		for _, req := range reqs {
			j, err := s.Join(ctx, req)
			if err != nil {
				return nil, err
			}
			all = append(all, j)
		}
		return all, nil
	}
}

// pending returns the error of a join whose outcome is unknown, or nil.
func pending(err error) *driver.PendingError {
	var p *driver.PendingError
	errors.As(err, &p)
	return p
}

func unlessGone(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// byKey returns the entry that has the key by now, whatever its place.
func (b *badBackend) byKey(ref driver.Ref) driver.Entry {
	line := memtest.Entries(b.st, ref.Line)
	if i := slices.IndexFunc(line, func(e driver.Entry) bool { return e.Key == ref.Key }); i >= 0 {
		return line[i]
	}
	return driver.Entry{Ref: ref}
}

// retries returns what reports whether more than one request of a kind was sent
// since.
func (b *badBackend) retries(op fault.Op) func() bool {
	sent := b.c.Sent(op)
	return func() bool { return b.c.Sent(op) > sent+1 }
}
