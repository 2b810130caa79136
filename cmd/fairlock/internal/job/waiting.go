package job

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// How often the reporter shows an unchanged place. On a terminal it updates the times at
// each repaint, and reads the queue at each readAgain. Elsewhere it repeats the message.
const (
	repaint   = time.Second
	readAgain = 15 * time.Second
	repeat    = 30 * time.Second
)

// readTimeout bounds a read of the queue: without an answer the place is shown all the same.
const readTimeout = 2 * time.Second

// showWaiting shows our place in the queue until stop is called.
func (r *reporter) showWaiting(ctx context.Context, s *session.Session) (stop func()) {
	if r.quiet && r.status == nil {
		return func() {}
	}
	r.forgetPlace()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		r.showChanges(ctx, s)
	}()
	return func() {
		cancel()
		<-done
		r.clear()
	}
}

// showChanges shows our place whenever it changes. After an immediate grant it shows nothing.
func (r *reporter) showChanges(ctx context.Context, s *session.Session) {
	every := repeat
	if r.width > 0 {
		every = repaint
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var l queueView
	var lastRead driver.Instant
	for {
		fresh := false
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			fresh = true
		case <-tick.C:
		}
		p := r.takePlace()
		if p.rejoined != nil {
			r.info("lost the place in the queue, joining again at its end: %v", p.rejoined)
		}
		if !p.joined || p.ahead == 0 {
			continue
		}
		now := r.clock.Now()
		if fresh || r.width == 0 || now.Sub(lastRead) >= readAgain {
			lastRead = now
			l = readQueue(ctx, s, r.name, l)
		}
		if ctx.Err() != nil {
			return // the lock was granted during the read
		}
		r.showPlace(p, l, fresh)
	}
}

// queueView is what the last read of the queue returned.
type queueView struct {
	of      int // the number of entries
	holder  *schema.Entry
	asked   time.Time // when the holder joined the queue
	granted time.Time // when it was granted; zero if that is unknown
}

// readQueue reads the holder and the number of entries. Without an answer it returns
// before.
func readQueue(ctx context.Context, s *session.Session, name string, before queueView) queueView {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	es, err := s.Queue(ctx, name)
	if err != nil || len(es) == 0 {
		return before
	}
	now := session.Engine(door.Key{}).Of(s).Clock().Wall()
	l := schema.Describe(name, 0, es, now)
	return queueView{of: len(es), holder: &l.Entries[0], asked: es[0].Asked, granted: es[0].Granted}
}

func (r *reporter) showPlace(p place, l queueView, fresh bool) {
	of := max(l.of, p.ahead+1)
	if fresh {
		r.report(schema.StateQueued, func(s *schema.Status) { s.Place, s.Of, s.Holder = p.ahead+1, of, l.holder })
	}
	text := fmt.Sprintf("waiting, %s of %d", ordinal(p.ahead+1), of)
	if l.holder != nil {
		text += ", held by " + l.holder.Who()
		now := r.clock.Wall()
		switch {
		case !l.granted.IsZero():
			text += " for " + age(now.Sub(l.granted))
		case !l.asked.IsZero():
			text += ", which asked " + age(now.Sub(l.asked)) + " ago"
		}
		text += fmt.Sprintf(", token %d", l.holder.Token)
	}
	switch {
	case r.quiet:
	case r.width > 0:
		r.paint(r.name + ": " + text + ", ^C leaves the queue")
	default:
		r.info("%s", text)
	}
}

// age formats a duration for people.
func age(d time.Duration) string {
	if d < 10*time.Second {
		return max(d, 0).Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func ordinal(n int) string {
	switch {
	case n%100/10 == 1:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
