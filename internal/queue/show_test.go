package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// show returns what happened, and the line.
func (w *world) show() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := w.news
	w.news = nil
	slices.Sort(news)
	var line []string
	believed, writing, shared := 0, 0, map[string]bool{}
	for _, e := range memtest.Entries(w.st, "n") {
		who := e.Key
		for _, r := range w.reqs {
			if r.place == e.Place {
				who = r.name
			}
		}
		line = append(line, who)
		if e.Mode == driver.Shared {
			shared[who] = true
		}
	}
	for _, r := range w.reqs {
		if r.hold == nil || r.hold.Remaining() == 0 || w.struck[r.place] {
			continue
		}
		believed++
		if !r.reads {
			writing++
		}
		if i := slices.Index(line, r.name); i >= 0 {
			line[i] += "*"
		} else {
			line = append(line, "!"+r.name+"*") // believes, and has no entry
		}
	}
	if believed > 1 && writing > 0 {
		news = append(news, "TWO HOLD")
	}
	for i, who := range line {
		if shared[strings.TrimSuffix(who, "*")] {
			line[i] = "~" + who
		}
	}
	if len(line) == 0 {
		line = []string{"(empty)"}
	}
	return append(news, "line: "+strings.Join(line, " "))
}

// short names an error by what callers branch on.
func short(err error) string {
	var lost *session.LostError
	if errors.As(err, &lost) {
		return "lost: " + lost.Reason.Error()
	}
	for _, e := range []error{
		session.ErrNotAcquired, session.ErrForeignKey, session.ErrClosed,
		session.ErrReleasePending, session.ErrNotWriter, context.DeadlineExceeded, session.ErrUnlocked, session.ErrLost,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return err.Error()
}
