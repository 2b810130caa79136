package credential

import (
	"log/slog"
	"sync"
)

// latest is something that is read again whenever it is needed.
type latest[T any] struct {
	read func() (T, error)

	mu   sync.Mutex
	last T      // what was read last without an error
	why  string // why it was not read since then; "" if it was
	log  *slog.Logger
}

// open reads for the first time.
func open[T any](read func() (T, error)) (*latest[T], error) {
	last, err := read()
	if err != nil {
		return nil, err
	}
	return &latest[T]{read: read, last: last, log: slog.New(slog.DiscardHandler)}, nil
}

func (l *latest[T]) logTo(log *slog.Logger) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
}

// get reads again. If that fails it returns what was read before, and logs the reason if it is a new
// one.
func (l *latest[T]) get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, err := l.read()
	switch {
	case err == nil:
		l.last, l.why = v, ""
	case err.Error() != l.why:
		l.why = err.Error()
		l.log.Warn("a credential cannot be read again, so its last good content is used", "err", err)
	}
	return l.last
}
