package drivertest_test

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

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
