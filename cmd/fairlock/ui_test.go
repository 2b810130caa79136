package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/hang"
)

func TestUIServesThePageUntilItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(hang.Context(t))
	defer cancel()
	r, w := io.Pipe()
	cmd := root()
	cmd.SetArgs([]string{"ui", "--on", "mem://", "--allow-evict"})
	cmd.SetOut(w)
	cmd.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/#token=\w{20,}\n$`, line)
	url, token, _ := strings.Cut(strings.TrimSpace(line), "#token=")
	get := func(path, host string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		require.NoError(t, err)
		req.Host = host
		return http.DefaultClient.Do(req)
	}

	page, err := get("", "localhost")
	require.NoError(t, err)
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	assert.Contains(t, string(text), "<title>Fairlock</title>")
	state, err := get("state", "localhost")
	require.NoError(t, err)
	text, err = io.ReadAll(state.Body)
	require.NoError(t, err)
	require.NoError(t, state.Body.Close())
	assert.Contains(t, string(text), `"command":"fairlock --on mem://"`)
	assert.NotContains(t, string(text), token, "only the printed address has it")
	foreign, err := get("state", "rebound.example")
	require.NoError(t, err)
	require.NoError(t, foreign.Body.Close())
	assert.Equal(t, http.StatusMisdirectedRequest, foreign.StatusCode)
	events, err := get("events", "127.0.0.1")
	require.NoError(t, err)

	cancel()
	_, _ = io.Copy(io.Discard, events.Body) // until the server ends it
	assert.NoError(t, events.Body.Close())
	var e *exit.Error
	require.ErrorAs(t, <-ended, &e)
	assert.Equal(t, exit.Interrupted, e.Code)
	http.DefaultClient.CloseIdleConnections()
}
