package term_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	ttl    = 10 * time.Second
	margin = time.Second
)

// fixture is a live term, and what it has reported.
type fixture struct {
	*term.Term
	terms  *term.Terms
	store  *membackend.Store
	client *membackend.Client
	events []string
}

func open(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{store: membackend.New()}
	f.client = f.store.NewClient()
	cfg := config(f.client.Backend())
	cfg.Opened = func(string, time.Duration) { f.events = append(f.events, "opened") }
	cfg.Ended = func(_ string, why term.End, _ error) { f.events = append(f.events, "ended: "+string(why)) }
	f.terms = term.New(cfg)
	require.NoError(t, f.terms.Open(t.Context()))
	f.Term = f.terms.Current()
	return f
}

// config returns the configuration of terms that report nothing.
func config(b driver.Backend) term.Config {
	return term.Config{
		Backend: b, TTL: ttl, Margin: func(time.Duration) time.Duration { return margin },
		Logger:  slog.New(slog.DiscardHandler),
		Cause:   func(_ string, why term.End, _ error) error { return errors.New(string(why)) },
		Opened:  func(string, time.Duration) {},
		Renewed: func(string, time.Duration) {},
		Ended:   func(string, term.End, error) {},
	}
}

// hold is something that ends with a term.
type hold struct {
	f    *fixture
	name string
}

func (h hold) Lose(why term.End, _ error) bool {
	h.f.events = append(h.f.events, fmt.Sprintf("%s loses: %v, waiters: %v", h.name, why, context.Cause(h.f.Context())))
	return true
}

func (h hold) Held() (string, bool) { return "hold", true }

func (h hold) ReportLoss() {
	h.f.events = append(h.f.events, fmt.Sprintf("%s reports, waiters: %v", h.name, context.Cause(h.f.Context())))
}

func (f *fixture) bind(t *testing.T, name string) hold {
	t.Helper()
	h := hold{f, name}
	require.NoError(t, f.Bind(h, func(time.Duration) { f.events = append(f.events, name+" is bound") }))
	return h
}

func TestHoldsEndFirstAndReportsComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		released := f.bind(t, "b")
		f.bind(t, "a")
		f.Unbind(released)
		f.End(term.Expired, nil)
		f.End(term.Closed, nil)

		assert.Equal(t, []string{
			"opened", "b is bound", "a is bound",
			"a loses: expired, waiters: <nil>", "a reports, waiters: expired", "ended: expired",
		}, f.events)
		require.EqualError(t, f.Bind(released, func(time.Duration) {}), "expired")
		assert.Zero(t, f.Left())
		f.Released()
		f.Released()
		synctest.Wait()
	})
}

// The least time to the deadline is that of a healthy session, also if the first answer was
// slow, and if no renewal has come yet.
func TestTheLeastTimeDoesNotDependOnTheFirstAnswer(t *testing.T) {
	for _, slow := range []time.Duration{0, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := membackend.New().NewClient()
			c.Delay(slow)
			terms := term.New(config(c.Backend()))
			require.NoError(t, terms.Open(t.Context()))
			c.Delay(0)
			opened := terms.Current()

			least := opened.Least()

			const window = ttl - ttl/1000 - margin
			assert.Equal(t, window-slow, opened.Left())
			assert.Equal(t, window-(ttl-margin)/4, least)
			time.Sleep(ttl)
			low := window
			for range 1000 {
				time.Sleep(ttl / 100)
				low = min(low, opened.Left())
			}
			assert.LessOrEqual(t, least, low)
			assert.Less(t, low, least+ttl/100)
			require.NoError(t, terms.Close())
		})
	}
}

func TestTheLastReleaseClosesALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		f.bind(t, "a")
		f.bind(t, "b")
		f.End(term.Deadline, nil)
		f.Released()
		synctest.Wait()
		require.Len(t, f.store.Sessions(), 1, "a worker may still use its margin")
		f.Released()
		synctest.Wait()
		assert.Empty(t, f.store.Sessions())
	})
}

func TestCloseWaitsForReleasesForUpToTheMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{margin / 2, 2 * margin} {
			f := open(t)
			f.bind(t, "a")
			done := 0
			f.ReleaseLater(wait, func(context.Context) error { done++; return nil })
			began := time.Now()
			require.NoError(t, f.terms.Close())
			assert.Equal(t, min(wait, margin), time.Since(began))
			assert.Equal(t, wait < margin, done == 1)
			assert.Empty(t, f.store.Sessions())
		}
	})
}

// TestRemovalsDoNotDelayReleases: Close finds very many waiters, whose entries leave, and waits for
// one release.
func TestRemovalsDoNotDelayReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		f.bind(t, "a")
		for range 1000 {
			f.Clean(func(ctx context.Context) error {
				<-ctx.Done() // no answer comes
				return ctx.Err()
			})
		}
		synctest.Wait()
		released := false
		f.ReleaseLater(0, func(context.Context) error { released = true; return nil })
		require.NoError(t, f.terms.Close())
		assert.True(t, released)
	})
}

func TestATermThatIsOverOwesNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		require.NoError(t, f.Owe())
		f.End(term.Expired, nil)
		require.EqualError(t, f.Owe(), "expired")
		synctest.Wait()
		require.Len(t, f.store.Sessions(), 1, "what is owed keeps it open")
		f.ReleaseLater(0, func(context.Context) error {
			t.Error("a lost term cleans nothing")
			return nil
		})
		synctest.Wait()
		assert.Empty(t, f.store.Sessions())
	})
}

func TestARemovalGoesOnUntilItSucceedsOrTheTermIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		var attempts, until atomic.Int64
		f.Clean(func(context.Context) error {
			attempts.Add(1)
			return errors.New("not yet")
		})
		f.Clean(func(context.Context) error {
			if until.Add(1) < 5 {
				return errors.New("not yet")
			}
			return nil
		})
		time.Sleep(5 * time.Second)
		assert.EqualValues(t, 5, until.Load())
		assert.Greater(t, attempts.Load(), int64(5))
		f.End(term.Expired, nil)
		synctest.Wait()
		before := attempts.Load()
		time.Sleep(time.Minute)
		assert.Equal(t, before, attempts.Load())
	})
}

// TestHealthOfAnEndingTermHasAReason: a probe can come at the moment of a loss. The cause is
// known then, before the context of the term has ended.
func TestHealthOfAnEndingTermHasAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		h := &probed{terms: f.terms, term: f.Term}
		require.NoError(t, f.Bind(h, func(time.Duration) {}))
		f.client.Cut(fault.Both) // or the next term could be open before Health returns
		f.End(term.Expired, nil)

		require.EqualError(t, h.health, "expired")
		require.EqualError(t, h.ended, "expired")
		f.Released()
		f.client.Heal()
		require.NoError(t, f.terms.Close())
	})
}

// probed is a hold whose loss asks why.
type probed struct {
	terms         *term.Terms
	term          *term.Term
	health, ended error
}

func (h *probed) Lose(term.End, error) bool {
	_, _, h.health = h.terms.Health()
	h.ended = h.term.Ended()
	return true
}

func (h *probed) ReportLoss() {}

func (h *probed) Held() (string, bool) { return "probed", true }

// TestTermThatEndsBeforeItIsCurrentHasACause: a term can end between its opening and the
// moment at which it becomes the current one. The cause is known then, before the context of
// the term has ended.
func TestTermThatEndsBeforeItIsCurrentHasACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		require.NoError(t, f.Bind(late{f}, func(time.Duration) {}))
		f.client.Cut(fault.Both) // or the next term could be open before Health returns
		f.End(term.Expired, nil)
		f.Released()
		_, _, err := f.terms.Health()

		require.EqualError(t, err, "expired")
		f.client.Heal()
		require.NoError(t, f.terms.Close())
	})
}

// late is a hold whose term becomes the current one when it has ended.
type late struct{ f *fixture }

func (h late) Lose(term.End, error) bool { h.f.terms.Install(h.f.Term); return true }
func (h late) ReportLoss()               {}

func (h late) Held() (string, bool) { return "late", true }

// TestClosedClientGivesUpJobsThatWait: Close cannot wait for a release that is due in an hour.
func TestClosedClientGivesUpJobsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		f.bind(t, "a")
		f.ReleaseLater(time.Hour, func(context.Context) error { return nil })
		f.End(term.Closed, driver.ErrClosed)
		began := time.Now()
		require.NoError(t, f.terms.Close())
		synctest.Wait()

		assert.Less(t, time.Since(began), time.Minute)
		require.Error(t, f.Cleaning().Err())
	})
}

// captured is a backend that keeps what its last session is to call.
type captured struct {
	driver.Backend

	cfg driver.Config
}

func (b *captured) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	b.cfg = cfg
	return b.Backend.Open(ctx, cfg) //nolint:wrapcheck // it is the backend's
}

// TestObserverOfAClosedClientIsLeftAlone: the backend reports the end of its client to each
// session, and so to an observer.
func TestObserverOfAClosedClientIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &captured{Backend: membackend.New().Backend()}
		terms := term.New(config(b))
		require.NoError(t, terms.Open(t.Context()))
		terms.Current().End(term.Expired, nil)
		require.NoError(t, terms.Read(t.Context(), func(context.Context, driver.Session) error { return nil }))
		require.True(t, b.cfg.Observer)

		b.cfg.Gone(driver.ErrClosed)
		b.cfg.Renewed(0, 0, 0)
		require.NoError(t, terms.Close())
	})
}

// slowToOpen is a backend that takes a TTL for each of its first sessions, which then have
// ended. If it is stuck, none of those is ever closed.
type slowToOpen struct {
	driver.Backend
	slow  int
	stuck bool
}

type stuckSession struct{ driver.Session }

func (stuckSession) Close(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (b *slowToOpen) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if b.slow--; b.slow >= 0 && err == nil {
		time.Sleep(ttl)
		err = s.Close(context.WithoutCancel(ctx))
		cfg.Gone(driver.ErrSessionOver)
		if b.stuck {
			s = stuckSession{s}
		}
	}
	return s, err //nolint:wrapcheck // it is the backend's
}

func TestOpenOpensAnotherTermIfOneEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for slow, want := range []error{nil, nil, nil, driver.ErrUnavailable} {
			store := membackend.New()
			terms := term.New(config(&slowToOpen{Backend: store.Backend(), slow: slow}))
			ctx, cancel := context.WithTimeout(t.Context(), 5*ttl/2)
			err := terms.Open(ctx)
			cancel()
			synctest.Wait()

			require.ErrorIs(t, err, want, "%d slow", slow)
			if err == nil {
				assert.Positive(t, terms.Current().Left())
				assert.Len(t, store.Sessions(), 1, "those that ended while they were opened are gone")
				require.NoError(t, terms.Close())
			}
			synctest.Wait()
			assert.Empty(t, store.Sessions(), "%d slow", slow)
		}
	})
}

// TestOpenDoesNotWaitForASessionThatCannotBeClosed: the network is down when the answer to
// the opening has come, too late.
func TestOpenDoesNotWaitForASessionThatCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := term.New(config(&slowToOpen{Backend: membackend.New().Backend(), slow: 1, stuck: true}))
		const timeout = ttl + time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		began := time.Now()

		require.ErrorIs(t, terms.Open(ctx), driver.ErrUnavailable)
		assert.Equal(t, timeout, time.Since(began))
	})
}
