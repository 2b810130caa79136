package concurrency

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// TestThereIsOneServiceSession: with a second one, a waiter would go on after the end of its
// Session, and leave the other lease behind.
func TestThereIsOneServiceSession(t *testing.T) {
	store := membackend.New()
	b := &backend{Backend: store.NewClient().Backend()}
	cfg := driver.Config{
		TTL: time.Minute, Margin: func(time.Duration) time.Duration { return time.Second }, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	}
	s, err := b.Open(t.Context(), cfg)
	require.NoError(t, err)
	_, err = b.Open(t.Context(), cfg)
	require.ErrorIs(t, err, driver.ErrClosed)
	assert.Len(t, store.Sessions(), 1)

	cfg.Observer = true
	reads, err := b.Open(t.Context(), cfg)
	require.NoError(t, err, "an observer has no lease")
	require.NoError(t, reads.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	assert.Len(t, store.Sessions(), 1, "the lease stays")
}
