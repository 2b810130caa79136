package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// badHolders are the defects of calls that change an entry, and of ledgers.
var badHolders = []defect{
	{"share of nothing is nil", "change/ShareOfAnEntryThatIsGoneSaysSo", func(b *badBackend) {
		b.share = func(s driver.Session, ctx context.Context, ref driver.Ref) (driver.Turned, error) {
			turned, err := s.Share(ctx, ref)
			if errors.Is(err, driver.ErrGone) {
				return driver.Turned{Ref: ref}, nil
			}
			return turned, err
		}
	}},
	{"share is dated too early", "share/TheAnswerSaysByWhenItShows", func(b *badBackend) {
		after(&b.share, func(_ driver.Ref, turned *driver.Turned) { turned.Rev-- })
	}},
	// It finds no exclusive entry the second time.
	{"share works once", "change/ShareCutShortIsFinishedByTheNext", func(b *badBackend) {
		b.share = func(s driver.Session, ctx context.Context, ref driver.Ref) (driver.Turned, error) {
			for _, e := range memtest.Entries(b.st, ref.Line) {
				if e.Ref == ref && e.Mode == driver.Shared {
					return driver.Turned{}, driver.ErrGone
				}
			}
			return s.Share(ctx, ref)
		}
	}},
	{"share joins anew", "share/AnEntryIsSharedInItsPlace", func(b *badBackend) {
		b.share = func(s driver.Session, ctx context.Context, ref driver.Ref) (driver.Turned, error) {
			if _, err := s.Leave(ctx, driver.LeaveRequest{Ref: ref}); err != nil {
				return driver.Turned{}, err
			}
			j, err := s.Join(ctx, driver.JoinRequest{Line: ref.Line, Mode: driver.Shared})
			return driver.Turned{Ref: j.Entry.Ref, Rev: j.Rev}, err
		}
	}},
	// Looks miss an entry while it is shared.
	{"share is seen without its entry", "share/ASharedEntryIsNeverAbsent", func(b *badBackend) {
		b.share = func(s driver.Session, ctx context.Context, ref driver.Ref) (driver.Turned, error) {
			b.keep(ref)
			defer b.forget(ref)
			time.Sleep(10 * time.Millisecond)
			return s.Share(ctx, ref)
		}
		after(&b.look, func(_ driver.LookRequest, v *driver.View) {
			v.Entries = slices.DeleteFunc(v.Entries, func(e driver.Entry) bool { return b.kept(e.Ref) })
		})
	}},
	{"admit does nothing", "change/AdmitTwiceIsLikeOnce", func(b *badBackend) {
		b.admit = func(driver.Session, context.Context, driver.Ref) error { return nil }
	}},
	{"record does nothing", "change/RecordTwiceIsLikeOnce", func(b *badBackend) {
		b.record = func(driver.Session, context.Context, driver.Ref, time.Time) error { return nil }
	}},
	// These two are kept by the key, for the entry that gets the key next.
	{"admission outlives its entry", "admit/AnAdmissionGoesWithItsEntry", func(b *badBackend) {
		var keys sync.Map
		b.admit = func(s driver.Session, ctx context.Context, ref driver.Ref) error {
			keys.Store(ref.Key, true)
			return s.Admit(ctx, ref)
		}
		b.marked(func(e *driver.Entry) {
			if _, ok := keys.Load(e.Key); ok {
				e.Admitted = true
			}
		})
	}},
	{"a record outlives its entry", "record/ARecordGoesWithItsEntry", func(b *badBackend) {
		var keys sync.Map
		b.record = func(s driver.Session, ctx context.Context, ref driver.Ref, granted time.Time) error {
			keys.Store(ref.Key, granted)
			return s.Record(ctx, ref, granted)
		}
		b.marked(func(e *driver.Entry) {
			if at, ok := keys.Load(e.Key); ok {
				e.Granted, _ = at.(time.Time)
			}
		})
	}},
	{"claim forgets its number", "change/ClaimTwiceIsLikeOnce", claimsNext},
	{"numbers are used once", "claim/NumbersAreTheLowestThatAreFree", claimsNext},
	{"numbers are places", "claim/ANumberIsFreeWhenItsEntryHasGone", func(b *badBackend) {
		after(&b.claim, func(ref driver.Ref, n *driver.Number) {
			n.N = slices.IndexFunc(memtest.Entries(b.st, ref.Line), func(e driver.Entry) bool { return e.Ref == ref })
		})
	}},
	{"numbers have the tokens of entries", "claim/TheTokenOfANumberRises", func(b *badBackend) {
		after(&b.claim, func(ref driver.Ref, n *driver.Number) { n.Token = ref.Place })
	}},
	{"no ledger is not clean", "ledger/TheFirstHoldIsAfterACleanOne", entered(driver.PastClean, driver.PastUnknown)},
	{"death is not told", "ledger/AHoldThatDiedIsTold", entered(driver.PastDied, driver.PastClean)},
	// Each call tells what the ledger says then.
	{"enter forgets what it said", "ledger/AHoldThatDiedIsToldToWhoWaited", func(b *badBackend) {
		said := make(map[driver.Ref]bool)
		after(&b.enter, func(ref driver.Ref, past *driver.Past) {
			if said[ref] {
				*past = driver.PastClean
			}
			said[ref] = true
		})
	}},
	{"every leave is clean", "ledger/AHoldThatDiedIsTold", func(b *badBackend) {
		before(&b.leave, func(req *driver.LeaveRequest) { req.Clean = true })
	}},
	{"no leave is clean", "ledger/AHoldGivenBackIsClean", func(b *badBackend) {
		before(&b.leave, func(req *driver.LeaveRequest) { req.Clean = false })
	}},
	// A waiter that leaves in good order clears the ledger.
	{"a waiter strikes the name of a holder", "ledger/OnlyTheOwnNameIsStruck", func(b *badBackend) {
		b.leave = func(s driver.Session, ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
			if req.Clean {
				if _, err := s.Enter(ctx, req.Ref); err != nil {
					return driver.Left{}, err
				}
			}
			return s.Leave(ctx, req)
		}
	}},
	// It believes Join's name whoever is ahead.
	{"a waiter believes its join", "ledger/AHolderAheadOfAWaitersNameIsMissed", func(b *badBackend) {
		over := make(map[driver.Ref]bool)
		after(&b.join, func(_ driver.JoinRequest, j *driver.Joined) { over[j.Entry.Ref] = j.Entered })
		after(&b.enter, func(ref driver.Ref, past *driver.Past) {
			if over[ref] {
				*past = driver.PastClean
			}
		})
	}},
}

// claimsNext never gives a number twice.
func claimsNext(b *badBackend) {
	next := -1
	after(&b.claim, func(_ driver.Ref, n *driver.Number) {
		next++
		n.N = next
	})
}

// entered plants a defect into what Enter says.
func entered(from, to driver.Past) func(b *badBackend) {
	return func(b *badBackend) {
		before(&b.join, func(req *driver.JoinRequest) { req.Ledger = false }) // leave it to Enter
		after(&b.enter, func(_ driver.Ref, past *driver.Past) {
			if *past == from {
				*past = to
			}
		})
	}
}

// badSessions are the defects of sessions as such.
var badSessions = []defect{
	{"proof counts from receipt", "expiry/ProofsCountFromSending", func(b *badBackend) {
		b.proving(func(_ driver.Instant, ttl time.Duration) (driver.Instant, time.Duration) { return b.Clock().Now(), ttl })
	}},
	{"proof promises more", "expiry/ProofsGoOn", promisesMore},
	{"deadline comes too late", "session/AContextEndsBeforeTheEntriesOfADeadClientGo", promisesMore},
	{"proof without an answer", "expiry/NothingIsProvenWhileCutOff", func(b *badBackend) {
		var cfg driver.Config
		b.config = func(c *driver.Config) { cfg = *c }
		b.prove = func(s driver.Session) {
			s.Prove()
			time.AfterFunc(time.Second, func() { cfg.Proof(b.Clock().Now(), cfg.TTL) })
		}
	}},
	{"prove waits for its turn", "expiry/ProveBringsAProofNow", func(b *badBackend) { b.prove = func(driver.Session) {} }},
	{"gone is swallowed", "expiry/AnEndFromOutsideIsReported", func(b *badBackend) {
		b.config = func(cfg *driver.Config) { cfg.Gone = nil }
	}},
	{"abandon revokes", "expiry/AbandonLeavesEntriesToExpire", func(b *badBackend) {
		b.abandon = func(s driver.Session) {
			s.Abandon()
			b.st.Expire(s.ID())
		}
	}},
	{"abandon goes on", "expiry/AbandonStopsProofs", func(b *badBackend) { b.abandon = func(driver.Session) {} }},
	{"close leaves entries", "expiry/CloseRemovesAtOnce", func(b *badBackend) {
		b.close = func(s driver.Session, _ context.Context) error {
			s.Abandon()
			return nil
		}
	}},
	// It runs for a year behind each session.
	{"goroutine is left behind", "leaks/AbandonLeavesNoGoroutine", func(b *badBackend) {
		b.config = func(*driver.Config) {
			var once sync.Once
			go once.Do(func() { time.Sleep(365 * 24 * time.Hour) })
		}
	}},
}

// proving plants a defect into the reports of proofs.
func (b *badBackend) proving(change func(sent driver.Instant, ttl time.Duration) (driver.Instant, time.Duration)) {
	b.config = func(cfg *driver.Config) {
		report := cfg.Proof
		cfg.Proof = func(sent driver.Instant, ttl time.Duration) { report(change(sent, ttl)) }
	}
}

func promisesMore(b *badBackend) {
	b.proving(func(sent driver.Instant, ttl time.Duration) (driver.Instant, time.Duration) { return sent, ttl * 5 / 4 })
}
