package drivertest_test

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session/driver"
)

// faultyObserved are faults of clients that end the sessions of others, see Harness.Observed.
var faultyObserved = []planted{
	{"the service ends sessions by itself", "observed/NothingIsEndedWhereNoClientLooks", func(b *faulty) {
		b.abandon = func(s driver.Session) {
			s.Abandon()
			time.AfterFunc(10*time.Second, func() { b.st.Expire(s.ID()) })
		}
	}},
	{"an observer counts from the last renewal", "observed/NothingIsEndedWhereNoClientLooks", func(b *faulty) {
		dead := shared(b)
		b.abandon = func(s driver.Session) {
			s.Abandon()
			dead.Store(s.ID(), true)
		}
		b.onWatchOfOthers(func(session string) {
			if _, ok := dead.Load(session); ok {
				time.AfterFunc(time.Second, func() { b.st.Expire(session) })
			}
		})
	}},
	{"an observer does not compare", "observed/ASessionThatRenewsIsNotEndedByAnObserverThatWasCutOff", func(b *faulty) {
		b.onWatchOfOthers(func(session string) {
			time.AfterFunc(21*time.Second, func() { b.st.Expire(session) })
		})
	}},
	{"an observer ends its own session", "observed/TheOwnSessionIsNeverEnded", func(b *faulty) {
		id := ""
		sound := b.join
		b.join = func(s driver.Session, ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
			id = s.ID()
			return sound(s, ctx, reqs)
		}
		b.config = func(cfg *driver.Config) {
			renewed, last := cfg.Renewed, driver.Instant(0)
			cfg.Renewed = func(sent driver.Instant, ttl, lag time.Duration) {
				if last != 0 && sent.Sub(last) > ttl {
					b.st.Expire(id)
				}
				last = sent
				renewed(sent, ttl, lag)
			}
		}
	}},
	{"a record outlives its session", "observed/ARecordWithoutAnEntryEndsWhereAClientLooks", func(b *faulty) {
		b.ops(func(op *driver.Op) { op.Bound = false })
	}},
}

// onWatchOfOthers calls f when a session watches the entry of another, with that one.
func (b *faulty) onWatchOfOthers(f func(session string)) {
	sound := b.watch
	b.watch = func(s driver.Session, t driver.Target, report func(driver.Event)) func() {
		for _, e := range memtest.Entries(b.st, t.Queue) {
			if t.Kind == driver.OfEntry && e.Ref == t.Ref && e.Session != s.ID() {
				f(e.Session)
			}
		}
		return sound(s, t, report)
	}
}
