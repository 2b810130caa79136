package load

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/fairlock/fairlock/session"
)

// mostTold is how many troubles are told in full. A service with more to do than
// it can has thousands.
const mostTold = 10

// heard is what sessions say of themselves while there is weight on them.
type heard struct {
	mu      sync.Mutex
	renewed map[string]bool // the service sessions that have been, at least once
	told    []string
	lost    int
	logged  int
}

// options are those of all sessions.
func (h *heard) options() session.Options {
	h.renewed = make(map[string]bool)
	trouble := func(what string, e session.Event) {
		h.note(&h.lost, fmt.Sprintf("session %s: %s %q: %v", e.Session, what, e.Name, e.Err))
	}
	return session.Options{
		Logger: slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Hooks: session.Hooks{
			SessionRenewed: func(e session.Event) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.renewed[e.Session] = true
			},
			Lost:        func(_ context.Context, e session.Event) { trouble("lost", e) },
			Rejoined:    func(_ context.Context, e session.Event) { trouble("joined again", e) },
			SessionLost: func(e session.Event) { trouble("session lost", e) },
		},
	}
}

// Write takes one line of a log.
func (h *heard) Write(line []byte) (int, error) {
	h.note(&h.logged, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// note counts something and keeps it if it is among the first.
func (h *heard) note(count *int, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*count++
	if len(h.told) < mostTold {
		h.told = append(h.told, what)
	}
}

// allRenewed says that so many sessions have been renewed.
func (h *heard) allRenewed(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.renewed) == n
}

// report says what there was to complain of.
func (h *heard) report(r *Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Lost, r.Logged, r.Told = h.lost, h.logged, h.told
}
