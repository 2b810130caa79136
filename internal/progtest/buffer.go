package progtest

import (
	"bytes"
	"log/slog"
	"regexp"
	"sync"
	"testing"

	"github.com/fairlock/fairlock/internal/hang"
)

// Buffer keeps what a program writes, and can be read meanwhile.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns a logger that writes to the Buffer. If the test fails, its output shows the
// log.
func (b *Buffer) Logger(t testing.TB) *slog.Logger {
	t.Cleanup(func() {
		s := b.String()
		if t.Failed() && s != "" {
			t.Log("log:\n" + s)
		}
	})
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// WaitFor blocks until the written text matches a pattern.
func (b *Buffer) WaitFor(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	hang.Until(t, func() bool { return re.MatchString(b.String()) }, "%s\nin: %s", pattern, b)
}
