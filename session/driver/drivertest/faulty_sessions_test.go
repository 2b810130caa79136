package drivertest_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// faultySessions are faults of renewals, of ends, and of contexts.
var faultySessions = []planted{
	{"renewals count from the answer", "expiry/RenewalsCountFromSending", func(b *faulty) {
		b.config = func(cfg *driver.Config) {
			renewed, clock := cfg.Renewed, b.Info().Clock
			cfg.Renewed = func(_ driver.Instant, ttl, lag time.Duration) { renewed(clock.Now(), ttl, lag) }
		}
	}},
	{"renewals promise too much", "expiry/RenewalsGoOn", func(b *faulty) {
		b.config = func(cfg *driver.Config) {
			renewed := cfg.Renewed
			cfg.Renewed = func(sent driver.Instant, ttl, lag time.Duration) { renewed(sent, ttl+time.Second, lag) }
		}
	}},
	{"renewals are too rare", "expiry/RenewalsGoOn", func(b *faulty) {
		b.config = func(cfg *driver.Config) {
			renewed, last := cfg.Renewed, driver.Instant(0)
			cfg.Renewed = func(sent driver.Instant, ttl, lag time.Duration) {
				if last == 0 || sent.Sub(last) > ttl*9/10 {
					last = sent
					renewed(sent, ttl, lag)
				}
			}
		}
	}},
	{"renewals are older than reported", "expiry/RenewalsGoOn", func(b *faulty) {
		b.config = func(cfg *driver.Config) {
			renewed := cfg.Renewed
			cfg.Renewed = func(sent driver.Instant, ttl, lag time.Duration) { renewed(sent, ttl, lag/4) }
		}
	}},
	{"entries end early", "expiry/EntriesLiveAsLongAsRenewalsPromise", func(b *faulty) {
		b.config = func(cfg *driver.Config) {
			ttl, renewed := cfg.TTL, cfg.Renewed
			cfg.TTL = ttl / 2
			cfg.Renewed = func(sent driver.Instant, _, lag time.Duration) { renewed(sent, ttl, lag) }
		}
	}},
	{"renew is ignored", "expiry/RenewBringsARenewalNow", func(b *faulty) { b.renew = func(driver.Session) {} }},
	{"a loss is not reported", "expiry/AnEndFromOutsideIsReported", func(b *faulty) {
		b.config = func(cfg *driver.Config) { cfg.Gone = func(error) {} }
	}},
	{"abandon hands on", "expiry/AbandonLeavesEntriesToExpire", func(b *faulty) {
		b.abandon = func(s driver.Session) { _ = s.Close(context.Background()) }
	}},
	{"abandon goes on", "expiry/AbandonStopsRenewals", func(b *faulty) { b.abandon = func(driver.Session) {} }},
	{"abandon goes on joining", "expiry/NothingIsDoneAfterAbandon", func(b *faulty) { b.abandon = func(driver.Session) {} }},
	{"abandon leaks", "leaks/AbandonLeavesNoGoroutine", func(b *faulty) {
		b.abandon = func(s driver.Session) {
			s.Abandon()
			go time.Sleep(time.Minute)
		}
	}},
	{"close leaves", "expiry/CloseRemovesAtOnce", abandons},
	{"a bound record outlives close", "record/ABoundRecordEndsWithItsSessionOnly", abandons},
	{"close of a lost session fails", "expiry/CloseOfASessionThatIsOverSucceeds", func(b *faulty) {
		b.close = func(s driver.Session, ctx context.Context) error {
			for _, id := range b.st.Sessions() {
				if id == s.ID() {
					return s.Close(ctx)
				}
			}
			return errors.Join(driver.ErrSessionOver, s.Close(ctx))
		}
	}},
	{"an end has no error of its own", "expiry/AnEndFromOutsideIsReported", func(b *faulty) {
		failed(&b.read, func(_ driver.Session, _ driver.ReadRequest, err error) error {
			if errors.Is(err, driver.ErrSessionOver) {
				return errors.New("gone")
			}
			return err
		})
	}},
	{"reads do not return", "cancel/ReadReturnsWhileCutBoth", func(b *faulty) { patient(&b.read) }},
	{"updates do not return", "cancel/UpdateReturnsWhileCutReplies", func(b *faulty) { patient(&b.update) }},
	{"leaves do not return", "cancel/LeaveReturnsWhenCanceledAtEachRequestWithLostReply", func(b *faulty) { patient(&b.leave) }},
	{"a watch waits until it is armed", "cancel/WatchesCancelsAndAbandonReturnAtOnceWhileCutBoth", func(b *faulty) {
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			first := make(chan struct{})
			var once sync.Once
			defer func() {
				select {
				case <-first:
				case <-time.After(time.Minute): // it was cancelled, or the session has ended
				}
			}()
			return sound(s, t, func(ev driver.Event) {
				once.Do(func() { close(first) })
				f(ev)
			})
		}
	}},
	{"cancel waits for an answer", "cancel/WatchesCancelsAndAbandonReturnAtOnceWhileCutReplies", func(b *faulty) {
		sound := b.watch
		b.watch = func(s driver.Session, t driver.Target, f func(driver.Event)) func() {
			stop := sound(s, t, f)
			return func() {
				stop()
				_, _ = s.Names(context.Background(), "")
			}
		}
	}},
	{"abandon waits for an answer", "cancel/WatchesCancelsAndAbandonReturnAtOnceWhileCutRequests", func(b *faulty) {
		b.abandon = func(s driver.Session) {
			_, _ = s.Names(context.Background(), "")
			s.Abandon()
		}
	}},
	{"an observer is a session", "observer/AnObserverJoinsNothingAndIsNeverRenewed", observersAreSessions},
	{"close leaks", "leaks/CloseLeavesNoGoroutine", func(b *faulty) {
		b.close = func(s driver.Session, ctx context.Context) error {
			go time.Sleep(time.Minute)
			return s.Close(ctx)
		}
	}},
}

func abandons(b *faulty) {
	b.close = func(s driver.Session, _ context.Context) error {
		s.Abandon()
		return nil
	}
}

// patient makes a call wait for its answer although its context has ended.
func patient[Q, A any](of *call[Q, A]) {
	sound := *of
	*of = func(s driver.Session, ctx context.Context, q Q) (A, error) {
		return sound(s, context.WithoutCancel(ctx), q)
	}
}

func observersAreSessions(b *faulty) {
	b.config = func(cfg *driver.Config) {
		if cfg.Observer {
			cfg.Observer, cfg.TTL = false, 10*time.Second
		}
	}
}
