package session_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
)

func TestWithoutALoggerWarningsGoToTheDefaultOne(t *testing.T) {
	var log progtest.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	st := membackend.New()
	s, err := st.Open(t.Context(), nil)
	require.NoError(t, err)
	h, err := mutex.New(s, "n").Lock(t.Context())
	require.NoError(t, err)
	assert.Empty(t, log.String(), "opening a session is no warning")

	st.Expire(st.Sessions()[0])
	<-h.Context().Done()
	log.WaitFor(t, "level=WARN .*lock lost")
	require.NoError(t, s.Close())

	assert.NotContains(t, log.String(), "level=INFO")
	assert.NotContains(t, log.String(), "level=DEBUG")
}
