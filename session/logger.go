package session

import (
	"context"
	"log/slog"
)

// warnings is the handler of a session without a logger: it passes on warnings and
// errors, and drops the rest.
type warnings struct{ slog.Handler }

// Enabled reports whether the level is at least a warning that the handler below
// takes.
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs keeps the least level.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the least level.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
