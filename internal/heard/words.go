package heard

import (
	"bytes"
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

// WaitFor returns when what was written matches a pattern.
func (w *Words) WaitFor(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	require.Eventually(t, func() bool { return re.MatchString(w.String()) }, longest, 5*time.Millisecond, "%s\nin: %s", pattern, w)
}
