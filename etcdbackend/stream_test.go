package etcdbackend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{ driver.Clock }

func (bubbleClock) Now() driver.Instant { return driver.Instant(time.Now().UnixNano()) }

// The answer to a new watch is waited for as long as other answers take: a stream
// that is given up breaks all its watches, and each is one more for the server to make.
func TestStreamIsSilentAfterLongerThanAnswersTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(1)
		s.clock = bubbleClock{s.clock}
		l := &leased{b: s.backend, cfg: driver.Config{TTL: 15 * time.Second, Window: 13500 * ms}, pace: s.p}
		now := s.clock.Now()
		w := &serverWatch{idle: now, subs: map[string][]*sub{"x": {{}}}}
		st := &stream{
			h: newHub(l), interval: l.cfg.Window / 4, heard: now, awaited: now,
			byID: map[int64]*serverWatch{0: w}, awaiting: []*serverWatch{w},
		}
		_, err := s.attempt(t.Context(), 0, 300*ms) // makes it 900 ms
		require.NoError(t, err)

		time.Sleep(600 * ms)
		require.NoError(t, st.tick())
		time.Sleep(ms)
		assert.ErrorIs(t, st.tick(), errSilent)
	})
}
