package main

import (
	"context"
	"io"
	"testing"
)

// A service that stops answering must not block a user who has pressed Tab.
func TestCompletionDoesNotWaitForASlowClose(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	cancel()

	closeWithin(ctx, slowCloser{r}) // returns

	_ = w.Close()
}

// slowCloser is closed when its pipe is.
type slowCloser struct{ r io.Reader }

func (s slowCloser) Close() error {
	_, err := io.Copy(io.Discard, s.r)
	return err
}
