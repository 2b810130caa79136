package membackend_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

const ttl = 10 * time.Second

// reports is what a session says of itself.
type reports struct {
	proofs []driver.Instant
	gone   int
}

// open opens a session at driver level and closes it with the test. What it
// reports may be read after synctest.Wait.
func open(t *testing.T, c *membackend.Client) (driver.Session, *reports) {
	t.Helper()
	r := &reports{}
	s, err := c.Backend().Open(t.Context(), driver.Config{
		TTL:    ttl,
		Window: ttl * 9 / 10,
		Proof:  func(sent driver.Instant, _ time.Duration) { r.proofs = append(r.proofs, sent) },
		Gone:   func(error) { r.gone++ },
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Heal()
		c.Resume()
		assert.NoError(t, s.Close(context.Background()))
	})
	return s, r
}

func join(t *testing.T, s driver.Session, name string) driver.Entry {
	t.Helper()
	j, err := s.Join(t.Context(), driver.JoinRequest{Line: name})
	require.NoError(t, err)
	return j.Entry
}

func TestSimpleUserNeedsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := membackend.New().Open(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	})
}

func TestKeysAreUsedAgainAndPlacesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s, _ := open(t, st.NewClient())
		a := join(t, s, "jobs")
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: a.Ref})
		require.NoError(t, err)
		b := join(t, s, "jobs")

		assert.Equal(t, "jobs#m1.0", a.Key)
		assert.Equal(t, a.Key, b.Key)
		assert.Greater(t, b.Place, a.Place)
		_, err = s.Leave(t.Context(), driver.LeaveRequest{Ref: a.Ref})
		require.ErrorIs(t, err, driver.ErrGone)
		assert.Len(t, st.Entries("jobs"), 1, "the later entry with the same key stays")
	})
}
