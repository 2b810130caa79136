package drivertest_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// words are the entries that are taken to have left word, by all clients of a
// store.
type words struct{ all sync.Map }

// word is one of them.
type word struct {
	st  *membackend.Store
	ref driver.Ref
}

func (b *badBackend) speak(ref driver.Ref) { b.words.all.Store(word{b.st, ref}, true) }

func (b *badBackend) spoke(ref driver.Ref, _ driver.Event) bool {
	_, ok := b.words.all.Load(word{b.st, ref})
	return ok
}

// heldIf plants a defect into the answer of Tell: it is yes if also says so.
func heldIf(b *badBackend, also func(ref driver.Ref, ev driver.Event) bool) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		return s.Watch(req, func(ev driver.Event) {
			if req.Tell && ev.Kind == driver.Gone {
				ev.Held = also(req.Ref, ev) || ev.Held
			}
			f(ev)
		})
	}
}

// releasing plants a defect into the Held of a leave.
func releasing(held bool) func(b *badBackend) {
	return func(b *badBackend) {
		b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
			req.Held = held
			return s.Leave(ctx, req)
		}
	}
}

// heldBy takes every end for a release if the session of the entry is alive, or
// is not.
func heldBy(alive bool) func(b *badBackend) {
	return func(b *badBackend) {
		heldIf(b, func(ref driver.Ref, _ driver.Event) bool {
			return alive == slices.ContainsFunc(b.st.Sessions(), func(id string) bool {
				return strings.Contains(ref.Key, "#"+id+".")
			})
		})
	}
}

// closeReleases gives back every entry as if it held.
func closeReleases(b *badBackend) {
	b.close = func(ctx context.Context, s driver.Session) error {
		names, err := b.Backend.Names(ctx, "")
		for _, name := range names {
			for _, e := range b.st.Entries(name) {
				if e.Session == s.ID() {
					_, err = s.Leave(ctx, driver.LeaveRequest{Ref: e.Ref, Held: true})
				}
			}
		}
		if err != nil {
			return err
		}
		return s.Close(ctx)
	}
}

func tellsEverybody(b *badBackend) {
	b.watch = func(s driver.Session, req driver.WatchRequest, f func(driver.Event)) func() {
		req.Tell = true
		return s.Watch(req, f)
	}
}

// wordOf takes a word for that of every entry that looks the same.
func wordOf(same func(ref driver.Ref) string) func(b *badBackend) {
	return func(b *badBackend) {
		said := make(map[string]bool)
		var mu sync.Mutex
		heldIf(b, func(ref driver.Ref, ev driver.Event) bool {
			mu.Lock()
			defer mu.Unlock()
			before := said[same(ref)]
			said[same(ref)] = before || ev.Held
			return before
		})
	}
}

// lostWord takes it for a release when somebody joined before the word was read,
// since that would have removed it.
func lostWord(b *badBackend) {
	heldIf(b, func(ref driver.Ref, ev driver.Event) bool {
		line := b.st.Entries(ref.Line)
		return len(line) > 0 && line[len(line)-1].Place > ev.Rev
	})
}

// attemptSpeaks leaves word before the deletion, not with it.
func attemptSpeaks(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		if req.Held {
			b.speak(req.Ref)
		}
		return s.Leave(ctx, req)
	}
	heldIf(b, b.spoke)
}

// retrySpeaks leaves word for who is first when the request is sent again.
func retrySpeaks(b *badBackend) {
	b.leave = func(ctx context.Context, s driver.Session, req driver.LeaveRequest) (driver.Left, error) {
		before := b.c.Sent(fault.Leave)
		left, err := s.Leave(ctx, req)
		if line := b.st.Entries(req.Ref.Line); len(line) > 0 && b.c.Sent(fault.Leave) > before+1 {
			b.speak(line[0].Ref)
		}
		return left, err
	}
	heldIf(b, b.spoke)
}
