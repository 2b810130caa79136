package load

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/fairlock/fairlock/session"
)

// maxMessages is how many messages are kept. An overloaded service causes thousands.
const maxMessages = 10

// sessionLog collects what the sessions report and log under load.
type sessionLog struct {
	mu       sync.Mutex
	renewed  map[string]bool // the service sessions that were renewed at least once
	messages []string
	lost     int
	logged   int
}

// options returns the options of all sessions.
func (l *sessionLog) options() session.Options {
	l.renewed = make(map[string]bool)
	trouble := func(what string, e session.Event) {
		l.note(&l.lost, fmt.Sprintf("session %s: %s %q: %v", e.Session, what, e.Name, e.Err))
	}
	return session.Options{
		Logger: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Hooks: session.Hooks{
			SessionRenewed: func(e session.Event) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.renewed[e.Session] = true
			},
			Lost:        func(_ context.Context, e session.Event) { trouble("lost", e) },
			Rejoined:    func(_ context.Context, e session.Event) { trouble("joined again", e) },
			SessionLost: func(e session.Event) { trouble("session lost", e) },
		},
	}
}

// Write takes one line of a log.
func (l *sessionLog) Write(line []byte) (int, error) {
	l.note(&l.logged, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// note counts a message, and keeps it if it is among the first maxMessages.
func (l *sessionLog) note(count *int, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count++
	if len(l.messages) < maxMessages {
		l.messages = append(l.messages, what)
	}
}

// allRenewed reports whether n sessions have been renewed.
func (l *sessionLog) allRenewed(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.renewed) == n
}

// report copies the counts and messages into a result.
func (l *sessionLog) report(r *Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Lost, r.Logged, r.Messages = l.lost, l.logged, l.messages
}
