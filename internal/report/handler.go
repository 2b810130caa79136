package report

import (
	"context"
	"log/slog"
)

// handler is a slog.Handler that has records handled later, by a handler of the user's.
type handler struct {
	h     slog.Handler
	least slog.Level
	later func(f func()) // has f called
}

// Enabled reports whether a record of the level may be of interest. The user's handler is
// asked later, because it is the user's code.
func (l handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= l.least && l.h != slog.DiscardHandler
}

// Handle has the record handled.
func (l handler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	l.later(func() {
		if l.h.Enabled(ctx, r.Level) {
			_ = l.h.Handle(ctx, r)
		}
	})
	return nil
}

// WithAttrs returns a handler with more attributes.
func (l handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.h = l.h.WithAttrs(attrs)
	return l
}

// WithGroup returns a handler with one more group.
func (l handler) WithGroup(name string) slog.Handler {
	l.h = l.h.WithGroup(name)
	return l
}
