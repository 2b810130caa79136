package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// frontSize is how many of the first entries Front reads.
const frontSize = 16

// Place is an entry of this process in a queue, as long as its term lives.
type Place struct {
	e   *Engine
	t   *term.Term
	own driver.Ref
}

// Place returns the place of the hold in its first queue.
func (h *Hold) Place() Place { return Place{h.Engine(), h.t, h.Refs()[0]} }

// Candidate is an entry as Front shows it: the generation is 0 if it has none, and the TTL is as its
// owner claims.
type Candidate struct {
	Ref        driver.Ref
	Generation int64
	TTL        time.Duration
}

// Front calls f with the first 16 entries of the queue, and with the index of this entry: when it has
// become the first or the next one, and each time the queue may have changed since. It returns
// when ctx or the term has ended, when the entry is gone, or where waiting cannot help. f must not
// block for long.
//
// Only an entry that is first or next sees what is behind it, so a queue of n candidates costs two of
// them a read for each change, and not n. An entry further back watches the two that are nearest
// ahead: only when one of them ends can the entry have become the next one.
func (p Place) Front(ctx context.Context, f func(at int, first []Candidate)) {
	e, own := p.e, p.own
	ctx, cancel := p.t.Within(ctx)
	defer cancel()
	b := &front{s: p.t.Driver(), news: newNews(), watched: make(map[driver.Target]func())}
	defer b.watch()
	ahead := driver.ReadRequest{Queue: own.Queue, Upto: own.Place, Nearest: 2}
	first := driver.ReadRequest{Queue: own.Queue, Nearest: frontSize, Detail: true}
	req, near := ahead, false
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
	for ctx.Err() == nil {
		v, err := b.s.Read(ctx, req)
		if err != nil {
			if driver.Incurable(err) {
				e.cfg.Logger.Warn("fairlock: cannot read the candidates", "name", own.Queue, "err", err)
				return
			}
			backoff.Sleep(ctx, e.info.Clock)
			continue
		}
		backoff.Reset()
		at := slices.IndexFunc(v.Entries, func(o driver.Entry) bool { return o.Ref == own })
		switch {
		case at < 0:
			return
		case near:
			f(at, candidates(v.Entries))
		case v.Complete && at <= 1: // from now on for ever: entries ahead only become fewer
			req, near = first, true
			b.watch(driver.Target{Kind: driver.OfQueue, Queue: own.Queue})
		default:
			var nearest []driver.Target
			for _, o := range v.Entries[max(0, at-2):at] {
				nearest = append(nearest, o.Target())
			}
			b.watch(nearest...)
		}
		b.news.wait(ctx, e)
	}
}

func candidates(first []driver.Entry) []Candidate {
	all := make([]Candidate, len(first))
	for i := range first {
		meta := owner.MetaOf(&first[i])
		all[i] = Candidate{Ref: first[i].Ref, Generation: meta.Generation, TTL: meta.TTL}
	}
	return all
}

// front is what a Front watches. One goroutine uses it, that of Front; only the callbacks of the
// watches, in a goroutine of the driver's, put something into news.
type front struct {
	s       driver.Session
	news    news
	watched map[driver.Target]func()
}

// watch has exactly these targets watched. Those that are watched already stay so, because a new watch
// costs a request. That of a queue is to be read when it is armed, and one of an entry when that is gone.
func (b *front) watch(targets ...driver.Target) {
	for on, cancel := range b.watched {
		if !slices.Contains(targets, on) {
			cancel()
			delete(b.watched, on)
		}
	}
	for _, on := range targets {
		if b.watched[on] != nil {
			continue
		}
		b.watched[on] = b.s.Watch(on, func(ev driver.Event) {
			if ev.Kind == driver.Lost || on.Kind == driver.OfEntry && ev.Kind != driver.Gone {
				return
			}
			b.news.come()
		})
	}
}
