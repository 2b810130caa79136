package memtest

import (
	"context"
	"sync/atomic"

	"github.com/fairlock/fairlock/session/driver"
)

// Watches is a backend that counts the watches of another, over all sessions.
type Watches struct {
	driver.Backend
	live, told atomic.Int64
}

// CountWatches returns a backend that counts the watches of b.
func CountWatches(b driver.Backend) *Watches { return &Watches{Backend: b} }

// Live is how many were begun and not cancelled.
func (w *Watches) Live() int64 { return w.live.Load() }

// Told is how many events they have told; that one is armed is none.
func (w *Watches) Told() int64 { return w.told.Load() }

// Open implements driver.Backend.
func (w *Watches) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := w.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return countedSession{s, w}, nil
}

type countedSession struct {
	driver.Session
	all *Watches
}

// Watch implements driver.Session.
func (s countedSession) Watch(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	s.all.live.Add(1)
	stop := s.Session.Watch(req, func(ev driver.Event) {
		if ev.Kind != driver.Armed {
			s.all.told.Add(1)
		}
		f(ev)
	})
	return func() {
		s.all.live.Add(-1)
		stop()
	}
}
