package process

import (
	"strings"
	"sync"
)

// tailLimit is how many bytes a Tail keeps.
const tailLimit = 16 << 10

// Tail is a writer that keeps the end of what was written: at most 16 KiB. It is safe for
// concurrent use.
type Tail struct {
	mu    sync.Mutex
	kept  []byte
	total int
}

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += len(b)
	t.kept = append(t.kept, b...)
	over := len(t.kept) - tailLimit
	if over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// String returns the end of what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// Len returns how many bytes were written in all.
func (t *Tail) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// LastLines returns the last n lines of a text, without the spaces around them.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
