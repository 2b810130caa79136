package heard

import (
	"bytes"
	"log/slog"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longest is how long a program may take to say what it says at once, or after
// seconds, on a machine that is not busy.
const longest = 45 * time.Second

// Words is what a program has written, while it goes on writing.
type Words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is an [io.Writer]'s.
func (w *Words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// String is all that was written until now.
func (w *Words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// Logger logs everything into it, and shows it when the test has failed.
func (w *Words) Logger(t testing.TB) *slog.Logger {
	t.Cleanup(func() {
		if s := w.String(); t.Failed() && s != "" {
			t.Log("log:\n" + s)
		}
	})
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// WaitFor returns when what was written matches a pattern.
func (w *Words) WaitFor(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool { return re.MatchString(w.String()) }, longest, 5*time.Millisecond, "%s\nin: %s", pattern, w)
}
