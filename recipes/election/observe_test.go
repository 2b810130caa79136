package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// soon is how quickly a change is yielded where nothing takes time: far below the seconds
// after which an observer reads without an event.
const soon = 50 * time.Millisecond

// observed starts to observe, and returns a function that returns the value that was
// yielded last, "-" if there is no leader.
func observed(t *testing.T, s *session.Session) (last func() string) {
	t.Helper()
	var value atomic.Value
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for l, err := range election.New(s, "n").Observe(ctx) {
			assert.NoError(t, err)
			if l.Vacant() {
				l.Value = "-"
			}
			value.Store(l.Value)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() string {
		time.Sleep(soon)
		return value.Load().(string) //nolint:forcetypeassert // nothing else is stored
	}
}

// What happens between the read and the moment from which the watch reports.
func TestObserveMissesNothingBeforeItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		leads := election.New(open(t, st.NewClient(), nil), "n")
		h, err := leads.Campaign(t.Context(), "one")
		require.NoError(t, err)
		c := st.NewClient()
		s := open(t, c, nil)
		changed := false
		c.OnSend(func(op fault.Op) {
			if op == fault.Watch && !changed {
				changed = true
				memtest.Overwrite(st, "n", memtest.Entries(st, "n")[0].Key, []byte("two"))
			}
		})
		last := observed(t, s)
		require.Equal(t, "two", last())
		c.OnRequest(nil)
		require.NoError(t, h.Unlock())
	})
}

func TestObserveLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		b := memtest.CountWatches(st.Backend())
		s, err := session.Engine(door.Key{}).Open(t.Context(), b, nil)
		require.NoError(t, err)
		e := election.New(s, "n")
		for range 3 {
			for _, err := range e.Observe(t.Context()) {
				require.NoError(t, err)
				assert.EqualValues(t, 1, b.Live(), "one watch for one observer")
				break
			}
			assert.Zero(t, b.Live())
			h, err := e.Campaign(t.Context(), "v")
			require.NoError(t, err)
			for _, err := range e.Observe(t.Context()) {
				require.NoError(t, err)
				break
			}
			require.NoError(t, h.Unlock())
			assert.Zero(t, b.Live())
		}
		require.NoError(t, s.Close())
	})
}
