// Package inbox calls the watchers of a backend in the background.
package inbox

import "sync"

// Inbox calls functions in the order in which they were put, one at a time, in a goroutine that
// lives for as long as there are any. The zero value is ready to use.
type Inbox struct {
	mu    sync.Mutex
	calls []func()
}

// Put adds a function. It does not wait for any call.
func (b *Inbox) Put(call func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	if len(b.calls) == 1 {
		go b.run()
	}
}

func (b *Inbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.calls) > 0 {
		call := b.calls[0]
		b.mu.Unlock()
		call()
		b.mu.Lock()
		b.calls[0] = nil
		b.calls = b.calls[1:]
	}
	b.calls = nil
}
