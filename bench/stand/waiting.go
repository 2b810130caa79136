package stand

import "sync"

// Waiting counts the contenders of peers whose waiters no server knows. The zero value is ready
// to use.
type Waiting struct {
	mu      sync.Mutex
	waiting map[string]int // those that wait or hold, by queue
}

// Waiters returns the number of contenders that wait or hold, and false for a queue that
// never had any.
func (w *Waiting) Waiters(queue string) (n int, theirs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, theirs = w.waiting[queue]
	return n, theirs
}

func (w *Waiting) add(queue string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]int{}
	}
	w.waiting[queue] += n
}

// Wrap calls lock, and counts the contender until it has failed or unlocked.
func (w *Waiting) Wrap(queue string, lock func() (func() error, error)) (func() error, error) {
	w.add(queue, 1)
	unlock, err := lock()
	if err != nil {
		w.add(queue, -1)
		return nil, err
	}
	return func() error {
		w.add(queue, -1)
		return unlock()
	}, nil
}
