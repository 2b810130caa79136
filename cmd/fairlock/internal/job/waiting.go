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

// How often the waiting is shown although nothing has changed. On a terminal the
// times go on, and now and then the service is asked who holds.
const (
	repaint  = time.Second
	askAgain = 15 * time.Second
	repeat   = 30 * time.Second
)

// waiting shows how we wait, until stop.
func (t *teller) waiting(ctx context.Context, s *session.Session) (stop func()) {
	if t.quiet && t.status == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		t.wait(ctx, s)
	}()
	return func() {
		cancel()
		<-done
		t.clear()
	}
}

// wait shows what changes. Somebody who is granted at once sees nothing.
func (t *teller) wait(ctx context.Context, s *session.Session) {
	every := repeat
	if t.width > 0 {
		every = repaint
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var l queueView
	var asked driver.Instant
	for {
		fresh := false
		select {
		case <-ctx.Done():
			return
		case <-t.news:
			fresh = true
		case <-tick.C:
		}
		p := t.where()
		if p.rejoined != nil && fresh {
			t.say("lost the place in the queue, joining again at its end: %v", p.rejoined)
		}
		if !p.joined || p.ahead == 0 {
			continue
		}
		if now := t.clock.Now(); fresh || t.width == 0 || now.Sub(asked) >= askAgain {
			asked = now
			l = look(ctx, s, t.name, l)
		}
		if ctx.Err() != nil {
			return // it was granted while we looked
		}
		t.showPlace(p, l, fresh)
	}
}

// queueView is what was seen of the line.
type queueView struct {
	of      int
	holder  *schema.Entry
	asked   time.Time // when the holder joined the queue
	granted time.Time // since when it holds; zero if that is not known
}

// look asks who holds and how many wait. If there is no answer, what was known
// is still the best that is known.
func look(ctx context.Context, s *session.Session, name string, before queueView) queueView {
	es, err := s.Queue(ctx, name)
	if err != nil || len(es) == 0 {
		return before
	}
	now := session.Engine(door.Key{}).Of(s).Clock().Wall()
	l := schema.Describe(name, 0, es, now)
	return queueView{of: len(es), holder: &l.Entries[0], asked: es[0].Asked, granted: es[0].Granted}
}

func (t *teller) showPlace(p place, l queueView, fresh bool) {
	of := max(l.of, p.ahead+1)
	if fresh {
		t.report(schema.StateQueued, func(s *schema.Status) { s.Place, s.Of, s.Holder = p.ahead+1, of, l.holder })
	}
	text := fmt.Sprintf("waiting, %s of %d", ordinal(p.ahead+1), of)
	if l.holder != nil {
		text += ", held by " + l.holder.Who()
		switch now := t.clock.Wall(); {
		case !l.granted.IsZero():
			text += " for " + age(now.Sub(l.granted))
		case !l.asked.IsZero():
			text += ", which asked " + age(now.Sub(l.asked)) + " ago"
		}
		text += fmt.Sprintf(", token %d", l.holder.Token)
	}
	switch {
	case t.quiet:
	case t.width > 0:
		t.paint(t.name + ": " + text + ", ^C leaves the queue")
	default:
		t.say("%s", text)
	}
}

// age is a duration for people.
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
