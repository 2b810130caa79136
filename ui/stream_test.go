package ui_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/ui"
)

// TestAQuietPageStaysOpenOnHTTP2: there a write deadline ends the stream when it passes,
// although nothing is being written.
func TestAQuietPageStaysOpenOnHTTP2(t *testing.T) {
	inBubble(t, ui.Options{Interval: time.Minute}, func(f *fixture) {
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		conns := newPipes()
		server := &http.Server{Handler: f.server.Handler, Protocols: &h2, ReadHeaderTimeout: time.Minute}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(conns)
		}()
		transport := &http.Transport{DialContext: conns.dial, Protocols: &h2}
		f.http = &http.Client{Transport: transport}
		p := f.page()
		p.take()

		time.Sleep(5 * time.Minute)

		select {
		case <-p.ended:
			require.Fail(t, "the page was cut")
		default:
		}
		assert.Len(t, p.take(), 5)
		p.close()
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		<-served
	})
}
