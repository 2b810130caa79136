package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// enter puts a worker on the stage, before anything is heard of it.
func (s *stage) enter(name string) {
	s.change(func() { s.cast[name] = &actor{name: name} })
}

// hear takes in what a worker reports.
func (s *stage) hear(p *process, e wire.Event) {
	s.change(func() {
		a := s.cast[p.name]
		a.pid = p.pid
		switch e.Kind {
		case wire.Ready:
			a.ready = true
		case wire.Joined:
			s.joined[e.Token] = e.At
		case wire.Granted:
			s.granted(p, e)
		case wire.Lost:
			s.finished(e, check.Lost)
		case wire.Released:
			s.finished(e, check.Released)
		case wire.Late:
			s.late(e)
		case wire.Read:
			s.read[e.Token] = true
		}
	})
}

// granted takes in a new hold. The caller holds s.mu.
func (s *stage) granted(p *process, e wire.Event) {
	s.byToken[e.Token] = len(s.grants)
	s.grants = append(s.grants, check.Grant{Worker: p.name, PID: p.pid, Token: e.Token, At: e.At})
	s.jobs[e.Token] = e.Work
	if !s.brief {
		s.turn(p.name, e.Token)
	}
}

// turn notes who holds and who waits, for those without a picture. The caller
// holds s.mu.
func (s *stage) turn(name string, token int64) {
	var waiting strings.Builder
	for _, x := range s.line {
		if x.token > token {
			waiting.WriteString(" " + x.meta.Label)
		}
	}
	s.told(view.Note{
		At:   stamp.Now().Sub(s.start),
		Text: fmt.Sprintf("%-5s holds with token %-5d waiting:%s", name, token, waiting.String()),
	})
}

// finished takes in the end of a hold. The first that is told counts: a hold that
// was lost is unlocked later all the same. The caller holds s.mu.
func (s *stage) finished(e wire.Event, how check.Ending) {
	i, ok := s.byToken[e.Token]
	if !ok || s.grants[i].How != check.Open {
		return
	}
	s.grants[i].How, s.grants[i].End = how, e.At
	if how == check.Lost {
		s.note(screen.Warn, "%s noticed in time that it lost the lock, token %d", s.grants[i].Worker, e.Token)
	}
}

// late takes in that a worker is about to write without the lock. The caller
// holds s.mu.
func (s *stage) late(e wire.Event) {
	if e.Token != s.stop.Token {
		return
	}
	s.stop.Late, s.stop.Valid, s.stop.Why = true, e.Valid, e.Err
}

// leave takes in that a worker's process is gone.
func (s *stage) leave(p *process) {
	s.change(func() {
		a := s.cast[p.name]
		a.gone = true
		if p.err != nil && a.state != view.Killed {
			s.broken = append(s.broken, fmt.Errorf("worker %s, pid %d, ended early: %w", p.name, p.pid, p.err))
		}
	})
}

// put takes in an entry that the store told of.
func (s *stage) put(p place) {
	s.change(func() {
		s.entries[p.token] = &check.Entry{Token: p.token}
		s.insert(p)
	})
}

// gone takes in that the store deleted an entry.
func (s *stage) gone(token, rev int64) {
	s.change(func() {
		s.line = slices.DeleteFunc(s.line, func(x spot) bool { return x.token == token })
		if e := s.entries[token]; e != nil {
			e.Deleted = rev
		}
		s.goneAt[token] = stamp.Now()
	})
}

// marked takes in that the store has told of everything.
func (s *stage) marked() {
	s.change(func() { s.ended = true })
}

// touched asks the store who is first, while a holder waits for the ledger.
func (s *stage) touched(ctx context.Context, st store, token int64) {
	first, err := st.first(ctx)
	if ctx.Err() != nil { // the worker is gone
		return
	}
	s.change(func() {
		if err != nil {
			s.broken = append(s.broken, err)
			return
		}
		s.heads = append(s.heads, check.Head{Token: token, First: first})
	})
}
