package etcdbackend

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestAttemptsGrowWhenAllEndpointsHadTheirChance(t *testing.T) {
	p := pace{first: time.Second, slow: 2 * time.Second, most: 5 * time.Second, endpoints: 3}
	var got []time.Duration
	for n := range 10 {
		got = append(got, p.timeout(n, answerTimes{})/time.Second)
	}
	assert.Equal(t, []time.Duration{1, 1, 1, 2, 2, 2, 4, 4, 4, 5}, got)
	assert.Equal(t, 5*time.Second, p.timeout(1000, answerTimes{}))
}

func TestAttemptsGrowWithWhatIsKnown(t *testing.T) {
	p := pace{first: 400 * ms, slow: 4 * time.Second, most: 15 * time.Second, endpoints: 3}
	for name, c := range map[string]struct {
		known   answerTimes
		attempt int
		want    time.Duration
	}{
		"quick":                           {answerTimes{mean: 1 * ms, deviation: 1 * ms}, 0, 400 * ms},
		"slow":                            {answerTimes{mean: 500 * ms, deviation: 50 * ms}, 0, 700 * ms},
		"slow, once around":               {answerTimes{mean: 500 * ms, deviation: 50 * ms}, 3, 1400 * ms},
		"slower than one may be":          {answerTimes{mean: 5 * time.Second}, 0, 4 * time.Second},
		"slower, once around":             {answerTimes{mean: 5 * time.Second}, 3, 8 * time.Second},
		"silent":                          {answerTimes{doubled: 2}, 0, 1600 * ms},
		"silent, and more so in this one": {answerTimes{doubled: 2}, 9, 3200 * ms},
		"silent for long":                 {answerTimes{doubled: maxDoubled}, 0, 4 * time.Second},
		"silent, and for longer in this":  {answerTimes{doubled: maxDoubled}, 1000, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, p.timeout(c.attempt, c.known))
		})
	}
}

// Whatever was learned: no first attempt is shorter than it was without that, and
// three of them fit between a proof and the end of belief.
func TestPaceOfASessionKeepsToItsWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pace{first: firstAttempt, slow: longestFirst, endpoints: rapid.IntRange(0, 9).Draw(t, "endpoints")}
		ttl := time.Duration(rapid.Int64Range(int64(2*time.Second), int64(time.Hour)).Draw(t, "ttl"))
		window := max(time.Duration(rapid.Int64Range(int64(ttl/4), int64(ttl)).Draw(t, "window")), 600*ms)
		p = p.within(driver.Config{TTL: ttl, Window: window})
		known := answerTimes{
			mean:      time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "mean")),
			deviation: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "deviation")),
			doubled:   rapid.IntRange(0, maxDoubled).Draw(t, "doubled"),
		}
		last := time.Duration(0)
		for n := range 60 {
			d := p.timeout(n, known)
			if least := p.timeout(n, answerTimes{}); d < least || d < last || d > max(ttl, window/3) {
				t.Fatalf("attempt %d has %s: at least %s, the one before %s, TTL %s", n, d, least, last, ttl)
			}
			if n < p.endpoints && d > window/3 {
				t.Fatalf("attempt %d has %s of a window of %s", n, d, window)
			}
			last = d
		}
	})
}

// silent is a service that answers when told to.
type silent struct {
	*backend
	p pace
}

func newSilent(endpoints int) silent {
	b := &backend{clock: driver.SystemClock()}
	p := pace{first: firstAttempt, slow: longestFirst, endpoints: endpoints, learned: &b.learned}
	return silent{b, p.within(driver.Config{TTL: 15 * time.Second, Window: 13500 * ms})}
}

// attempt makes one that the service would answer after d, and says how long it
// was waited for.
func (s silent) attempt(ctx context.Context, n int, d time.Duration) (waited time.Duration, err error) {
	began := time.Now()
	err = s.once(ctx, s.p, n, func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return time.Since(began), err
}

func TestAttemptWaitsForAsLongAsAnswersTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(1)
		waited, err := s.attempt(t.Context(), 0, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, firstAttempt, waited)

		waited, err = s.attempt(t.Context(), 0, time.Hour)
		require.Error(t, err)
		assert.Equal(t, 2*firstAttempt, waited, "the only endpoint was silent")

		_, err = s.attempt(t.Context(), 0, 1200*ms)
		require.NoError(t, err)
		waited, err = s.attempt(t.Context(), 0, time.Hour)
		require.Error(t, err)
		assert.Equal(t, 3*1200*ms, waited)
	})
}

// All are sent at once to a service that does one after another: nothing was known
// when they were sent, and only the answers to the first tell how long it takes.
func TestAttemptsLearnWhileTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(1)
		late := make(chan error, maxFlight)
		for i := range maxFlight {
			go func() {
				_, err := s.attempt(t.Context(), 0, time.Duration(i)*10*ms)
				late <- err
			}()
		}
		for range maxFlight {
			assert.NoError(t, <-late)
		}
	})
}

// Endpoints that are dead beside one that answers cost what they always did.
func TestAttemptAtADeadEndpointCostsNoMoreForIt(t *testing.T) {
	for _, endpoints := range []int{2, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			s := newSilent(endpoints)
			for range 10 {
				for n := range endpoints - 1 {
					waited, err := s.attempt(t.Context(), n, time.Hour)
					require.Error(t, err)
					assert.Equal(t, firstAttempt, waited, "attempt %d at %d endpoints", n, endpoints)
				}
				_, err := s.attempt(t.Context(), endpoints-1, ms)
				require.NoError(t, err)
			}
		})
	}
}

// That others are silent too gives an attempt no more time: in an election they
// all are, and what was sent before it is never answered.
func TestSilenceOfOthersProlongsNoAttemptUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(1)
		first := make(chan time.Duration)
		go func() {
			waited, _ := s.attempt(t.Context(), 0, time.Hour)
			first <- waited
		}()
		time.Sleep(100 * ms)
		waited, _ := s.attempt(t.Context(), 0, time.Hour)
		assert.Equal(t, firstAttempt, <-first)
		assert.Equal(t, firstAttempt, waited)
		assert.Equal(t, 1, s.learned.now().doubled, "once for both")
	})
}

func TestAttemptThatItsCallerGivesUpTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(1)
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		_, err := s.attempt(ctx, 0, time.Hour)
		require.Error(t, err)
		assert.Zero(t, s.learned.now())
		boom := errors.New("refused")
		require.ErrorIs(t, s.once(t.Context(), s.p, 0, func(context.Context) error { return boom }), boom)
		assert.Zero(t, s.learned.now(), "an error may be told at once, whatever an answer takes")
	})
}
