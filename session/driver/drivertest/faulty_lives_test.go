package drivertest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// longest is the longest TTL of the service with planted faults: twice the TTL of its harness.
const longest = 20 * time.Second

// faultyLives are faults of new lives, and of the quarantine after them.
var faultyLives = []planted{
	{"sessions outlive a new life", "life/SessionsOfBeforeAreOverAfterPromotion", func(b *faulty) {
		b.onNewLife(func() {})
	}},
	{"a client that was cut off never learns of a new life", "life/AClientThatWasCutOffLearnsOfPromotionAfterTheCut", func(b *faulty) {
		b.config = func(cfg *driver.Config) { cfg.Gone = func(error) {} }
	}},
	{"there is no quarantine", "life/NoEntryIsMadeForTheLongestTTLAfterPromotion", func(b *faulty) {
		b.onNewLife(func() { memtest.NewLife(b.st, 0) })
	}},
	{"a quarantine ends early", "life/NoEntryIsMadeForTheLongestTTLAfterPromotion", func(b *faulty) {
		b.onNewLife(func() { memtest.NewLife(b.st, longest-time.Second/2) })
	}},
	{"a quarantine names no time", "life/NoEntryIsMadeForTheLongestTTLAfterPromotion", func(b *faulty) {
		sound := b.open
		b.open = func(ctx context.Context, cfg driver.Config) (driver.Session, error) {
			s, err := sound(ctx, cfg)
			if err != nil {
				return nil, driver.ErrUnavailable
			}
			return s, nil
		}
	}},
	{"each Open waits for itself", "life/AnOpenThatGivesUpDoesNotBeginTheWaitAnewAfterPromotion", func(b *faulty) {
		lives := b.onNewLife(func() { memtest.NewLife(b.st, 0) })
		sound := b.open
		b.open = func(ctx context.Context, cfg driver.Config) (driver.Session, error) {
			if lives.count() > 0 && !driver.Sleep(ctx, b.Info().Clock, longest) {
				return nil, fmt.Errorf("%w: %s are left", driver.ErrUnavailable, longest)
			}
			return sound(ctx, cfg)
		}
	}},
	{"a second life is not noticed", "life/ASecondPromotionDuringTheWaitBeginsItAnew", func(b *faulty) {
		var until time.Time
		b.onNewLife(func() {
			if until.IsZero() {
				until = time.Now().Add(longest)
			}
			memtest.NewLife(b.st, time.Until(until))
		})
	}},
	{"tokens begin anew with a life", "life/TokensRiseOverPromotion", func(b *faulty) {
		lives := b.onNewLife(func() { memtest.NewLife(b.st, longest) })
		b.joined(func(j *driver.Joined) { j.Entry.Token += 1000 * int64(2-lives.count()) })
	}},
	{"sessions know of no life before", "life/TokensRiseOverPromotion", func(b *faulty) {
		b.since = func(driver.Session) int64 { return 0 }
	}},
	{"a life begins above its first token", "life/TokensRiseOverPromotion", func(b *faulty) {
		b.since = func(s driver.Session) int64 { return s.Since() + min(s.Since(), 1)*1000 }
	}},
	{"a late join is carried out in the next life", "life/ALateJoinFromBeforeMakesNoEntryAfterPromotion", func(b *faulty) {
		lives := b.onNewLife(func() { memtest.NewLife(b.st, longest) })
		failed(&b.join, func(_ driver.Session, reqs []driver.JoinRequest, err error) error {
			if pending(err) != nil {
				lives.late = reqs
			}
			return err
		})
		sound := b.open
		b.open = func(ctx context.Context, cfg driver.Config) (driver.Session, error) {
			s, err := sound(ctx, cfg)
			if err == nil && lives.late != nil {
				_, err = s.Join(ctx, lives.late...)
			}
			return s, err
		}
	}},
}

// lives are those of one store.
type lives struct {
	begin func()

	mu   sync.Mutex
	n    int
	late []driver.JoinRequest
}

func (l *lives) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// onNewLife plants what happens when a new life begins. The first client of the store decides.
func (b *faulty) onNewLife(begin func()) *lives {
	l, _ := shared(b).LoadOrStore("lives", &lives{begin: begin})
	return l.(*lives) //nolint:forcetypeassert // nothing else is kept by that name
}

// living returns a harness whose service begins a new life as a fault has it that was planted.
func living(h drivertest.Harness) drivertest.Harness {
	service := h.Service
	h.Service = func(t *testing.T) drivertest.Service {
		return &mortal{Lives: service(t).(drivertest.Lives)} //nolint:forcetypeassert // see memtest
	}
	return h
}

type mortal struct {
	drivertest.Lives
	st *membackend.Store // of the first client
}

// Client implements drivertest.Service.
func (m *mortal) Client(t *testing.T) drivertest.Client {
	t.Helper()
	c := m.Lives.Client(t)
	m.st = c.Backend().(*faulty).st //nolint:forcetypeassert // see TestWrapped
	return c
}

// NewLife implements drivertest.Lives.
func (m *mortal) NewLife(t *testing.T, way string) {
	t.Helper()
	planted, ok := shared(&faulty{st: m.st}).Load("lives")
	if !ok {
		m.Lives.NewLife(t, way)
		return
	}
	l := planted.(*lives) //nolint:forcetypeassert // see onNewLife
	l.mu.Lock()
	l.n++
	l.mu.Unlock()
	l.begin()
}
