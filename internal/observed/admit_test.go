package observed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// A keeper is a store of which several programs carry out the steps of a quarantine, as a script would.
type keeper struct {
	mu                  sync.Mutex // of the keeper, and of what a test changes of its programs while they run
	life, stored, claim string
	sum                 time.Duration
	blessed             int
	claims              []string // those that were stored
	added               []time.Duration
}

// examine carries out one attempt of a write.
func (k *keeper) examine(w Write, attempt int) (wrote bool) {
	if w.Server != k.life || k.stored == k.life || w.Before != k.claim && w.Kind != Blesses {
		return false
	}
	switch w.Kind {
	case Claims:
		claim := w.Claim
		if claim != w.Before {
			claim = fmt.Sprint(claim, "-", attempt)
			k.sum = 0
		}
		k.claim = claim
		k.claims = append(k.claims, claim)
	case Counts:
		if w.Sum != k.sum {
			return false
		}
		k.sum += w.Added
		k.added = append(k.added, w.Added)
	case Blesses:
		if w.Claim != k.claim {
			return false
		}
		k.stored, k.claim, k.sum = k.life, "", 0
		k.blessed++
	case Looks:
		return false
	}
	return true
}

// change changes something while programs run.
func (k *keeper) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *keeper) shown(unproven bool) Shown {
	return Shown{Store: Store{Server: k.life, Stored: k.stored, Claim: k.claim, MaxTTL: ttl, Unproven: unproven}, Counted: k.sum}
}

// A program admits sessions on a keeper.
type program struct {
	Admission
	quarantine Quarantine
	log        bytes.Buffer
	writes     []Write
	err        error         // of each request
	unproven   bool          // no majority acknowledges a write
	takes      time.Duration // each request, before it is carried out
}

// clock is virtual time, which has another origin in each program.
type clock struct{ ahead time.Duration }

func (c clock) Now() driver.Instant {
	return driver.Instant(c.ahead + time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func (clock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func (clock) Wall() time.Time { return time.Now() }

func (k *keeper) program(ahead time.Duration) *program {
	p := &program{}
	p.Admission = Admission{
		Quarantine: &p.quarantine, Clock: clock{ahead}, Logger: slog.New(slog.NewTextHandler(&p.log, nil)), Service: "store",
		Do: func(ctx context.Context, w Write) (Shown, error) {
			p.writes = append(p.writes, w)
			if !driver.Sleep(ctx, p.Clock, p.takes) {
				return Shown{}, driver.ContextError(ctx)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if p.err != nil {
				return Shown{}, p.err
			}
			wrote := k.examine(w, 0)
			return k.shown(!wrote || p.unproven), nil
		},
	}
	return p
}

// admitsFor admits for so long, and returns the time that it took, and its error.
func (p *program) admitsFor(t *testing.T, d time.Duration) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	err := p.Admit(ctx)
	return time.Since(began), err
}

func (p *program) kinds() (all []WriteKind) {
	for _, w := range p.writes {
		all = append(all, w.Kind)
	}
	return all
}

func TestAWholeStoreTakesOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "1", stored: "1"}
		p := k.program(0)
		took, err := p.admitsFor(t, time.Second)
		require.NoError(t, err)
		assert.Zero(t, took)
		assert.Equal(t, []Write{{}}, p.writes)
		assert.Empty(t, p.log.String())
	})
}

func TestAQuarantineIsClaimedCountedAndBlessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		p := k.program(time.Hour)
		took, err := p.admitsFor(t, time.Minute)

		require.NoError(t, err)
		assert.Equal(t, ttl, took)
		assert.Equal(t, 1, k.blessed)
		require.Len(t, k.claims, 1)
		kinds := p.kinds()
		assert.Equal(t, []WriteKind{Looks, Claims, Counts}, kinds[:3])
		assert.Equal(t, Blesses, kinds[len(kinds)-1])
		assert.Equal(t, 10, len(kinds)-3, "it adds to the sum each second")
		for _, w := range p.writes[2 : len(kinds)-1] {
			assert.Equal(t, Counts, w.Kind)
			assert.Equal(t, k.claims[0], w.Before)
			assert.Equal(t, "2", w.Server)
		}
		bless := p.writes[len(kinds)-1]
		assert.Equal(t, Write{Kind: Blesses, Server: "2", Claim: k.claims[0]}, bless)
		assert.Equal(t, 1, strings.Count(p.log.String(), "nothing is granted for now"), "it is logged once")
	})
}

// A claim that comes late would bring back what others have counted before, if it had the same tag.
func TestAClaimHasATagOfEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		p := k.program(0)
		attempts := 0
		whole := p.Do
		p.Do = func(ctx context.Context, w Write) (Shown, error) {
			if w.Kind != Claims {
				return whole(ctx, w)
			}
			attempts++
			k.examine(w, 0) // its answer is lost, and it is sent again, when another claim is there
			wrote := k.examine(w, 1)
			return k.shown(!wrote), nil
		}
		_, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, 2, attempts, "the second one is for the claim of the first, whose answer proves it")
		require.Len(t, k.claims, 2+1)
		assert.True(t, strings.HasSuffix(k.claims[0], "-0"))
		assert.Equal(t, []string{k.claims[0], k.claims[0]}, k.claims[1:], "it is not replaced")
	})
}

// A claim whose answer shows no majority is written again, as it is.
func TestAnUnprovenClaimIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		p := k.program(0)
		p.unproven, p.takes = true, time.Second // as long as the server waits for its replicas
		time.AfterFunc(7500*time.Millisecond, func() { k.change(func() { p.unproven = false }) })
		took, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, 8*time.Second+ttl, "it counts from the answer that proves it")
		assert.Less(t, took, 8*time.Second+ttl+4*time.Second)
		for _, c := range k.claims {
			assert.Equal(t, k.claims[0], c, "another one would begin the counts of others again")
		}
		assert.Greater(t, len(k.claims), 5)
	})
}

// An opening has 5 s, and a quarantine may take a minute.
func TestAnOpeningGoesOnWithTheCountOfItsProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		p := k.program(0)
		_, err := p.admitsFor(t, 4500*time.Millisecond)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "for another 6s", "of the newest look, half a second ago")
		_, err = p.admitsFor(t, 4500*time.Millisecond)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		took, err := p.admitsFor(t, 4500*time.Millisecond)
		require.NoError(t, err)
		assert.Equal(t, time.Second, took)
		assert.Len(t, k.claims, 1)
	})
}

// Programs that are started again and again, each of which gives up before the end, come to an end.
func TestProgramsThatGiveUpCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		began := time.Now()
		n := 0
		for k.blessed == 0 {
			n++
			require.Less(t, n, 10)
			p := k.program(time.Duration(n) * time.Hour)
			_, err := p.admitsFor(t, 3*time.Second+time.Millisecond)
			if err != nil {
				require.ErrorIs(t, err, driver.ErrUnavailable)
			}
		}
		assert.GreaterOrEqual(t, time.Since(began), ttl)
		assert.Less(t, time.Since(began), ttl+4*time.Second)
		for _, c := range k.claims {
			assert.Equal(t, k.claims[0], c)
		}
	})
}

// Two programs at once must not count the same time twice.
func TestProgramsAtOnceCountEachMomentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, takes := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond} {
			k := &keeper{life: "2", stored: "1"}
			began := time.Now()
			done := make(chan error)
			for n := range 3 {
				p := k.program(time.Duration(n) * time.Hour)
				p.takes = takes
				go func() {
					var err error
					for range 50 {
						_, err = p.admitsFor(t, time.Duration(1700+400*n)*time.Millisecond)
						if err == nil {
							break
						}
						q := k.program(time.Duration(n) * time.Minute) // it is started again
						q.takes = takes
						p = q
					}
					done <- err
				}()
			}
			var blessed time.Duration
			for range 3 {
				require.NoError(t, <-done, "%s", takes)
				if blessed == 0 {
					blessed = time.Since(began)
				}
			}
			assert.GreaterOrEqual(t, blessed, ttl, "%s", takes)
			assert.Less(t, blessed, 3*ttl, "%s", takes)
			assert.Equal(t, 1, k.blessed)
			var sum time.Duration
			for _, a := range k.added {
				sum += a
			}
			assert.LessOrEqual(t, sum, blessed, "%s: never more than has passed", takes)
		}
	})
}

// What others have counted is not counted again, and what they count later does not end its own count early.
func TestACountGoesOnFromTheSumThatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1", claim: "2 a", sum: ttl - 3*time.Second}
		p := k.program(0)
		took, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second, took)
	})
}

func TestASumOfAnotherClaimIsOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "3", stored: "1", claim: "2 a", sum: ttl - time.Second}
		p := k.program(0)
		took, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, ttl, took)
		assert.True(t, claims(k.claims[0], "3"))
	})
}

func TestASumThatIsFullIsBlessedAfterAProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1", claim: "2 a", sum: ttl + time.Second}
		p := k.program(0)
		took, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, time.Millisecond, took)
		assert.Equal(t, []WriteKind{Looks, Claims, Counts, Blesses}, p.kinds())
	})
}

func TestAnObserverWaitsAndWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		o, p := k.program(0), k.program(time.Hour)
		o.Observer = true
		_, err := o.admitsFor(t, 2*ttl)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorContains(t, err, "grants nothing for another 10s")
		assert.Empty(t, k.claims)

		done := make(chan error)
		go func() {
			_, err := o.admitsFor(t, 2*ttl)
			done <- err
		}()
		_, err = p.admitsFor(t, 2*ttl)
		require.NoError(t, err)
		require.NoError(t, <-done)
		for _, w := range o.writes {
			assert.Equal(t, Write{}, w)
		}
	})
}

// Between two looks the store may fail over again.
func TestAPromotionDuringAnAdmissionBeginsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		p := k.program(0)
		time.AfterFunc(ttl/2+time.Millisecond, func() { k.change(func() { k.life = "3" }) })
		took, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, ttl/2+ttl)
		assert.Less(t, took, ttl/2+ttl+2*time.Second)
		assert.Equal(t, "3", k.stored)
		require.Len(t, k.claims, 2)
	})
}

func TestErrorsOfAnAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		for _, incurable := range []error{driver.ErrRefused, driver.ErrDenied, driver.ErrClosed} {
			p := k.program(0)
			p.err = incurable
			took, err := p.admitsFor(t, time.Minute)
			require.ErrorIs(t, err, incurable)
			assert.Zero(t, took)
		}

		p := k.program(0)
		p.err = fmt.Errorf("%w: no route", driver.ErrUnavailable)
		_, err := p.admitsFor(t, time.Minute)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.NotContains(t, err.Error(), "grants nothing", "nothing is known of the store")

		p = k.program(0)
		time.AfterFunc(ttl/2, func() { k.change(func() { p.err = fmt.Errorf("%w: no route", driver.ErrUnavailable) }) })
		_, err = p.admitsFor(t, time.Minute)
		require.ErrorContains(t, err, "grants nothing for another")
		require.ErrorContains(t, err, "no route")

		p = k.program(0)
		p.err = fmt.Errorf("the server is a standby: %w", ErrNotWhole)
		_, err = p.admitsFor(t, 1100*time.Millisecond)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, ErrNotWhole)
		assert.Len(t, p.writes, 5, "it is asked again four times a second")
		time.AfterFunc(time.Second, func() { k.change(func() { p.err, k.stored = nil, "2" }) })
		took, err := p.admitsFor(t, time.Minute)
		require.NoError(t, err)
		assert.LessOrEqual(t, took, 1250*time.Millisecond)
	})
}

func TestAnAdmissionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{life: "2", stored: "1"}
		p := k.program(0)
		why := errors.New("the caller's own reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { k.change(func() { cancel(why) }) })
		began := time.Now()
		err := p.Admit(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.NotErrorIs(t, err, why, "it is in the text only")
		assert.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}
