package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// addWorker adds a worker before its first event.
func (s *state) addWorker(name string) {
	s.change(func() { s.workers[name] = &workerState{name: name} })
}

// handle applies an event of a worker.
func (s *state) handle(p *process, e wire.Event) {
	s.change(func() {
		w := s.workers[p.name]
		w.pid = p.pid
		switch e.Kind {
		case wire.Ready:
			w.ready = true
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

// granted records a new hold. The caller holds s.mu.
func (s *state) granted(p *process, e wire.Event) {
	s.byToken[e.Token] = len(s.grants)
	s.grants = append(s.grants, check.Grant{Worker: p.name, PID: p.pid, Token: e.Token, At: e.At})
	s.jobs[e.Token] = e.Work
	if !s.quiet {
		s.noteTurn(p.name, e.Token)
	}
}

// noteTurn reports the holder and the waiters, for an output without a picture. The caller
// holds s.mu.
func (s *state) noteTurn(name string, token int64) {
	var waiting strings.Builder
	for _, x := range s.queue {
		if x.token > token {
			waiting.WriteString(" " + x.meta.Label)
		}
	}
	s.onNote(view.Note{
		At:   stamp.Now().Sub(s.start),
		Text: fmt.Sprintf("%-5s holds with token %-5d waiting:%s", name, token, waiting.String()),
	})
}

// finished records the end of a hold. Only the first report counts, because a lost hold is
// unlocked later too. The caller holds s.mu.
func (s *state) finished(e wire.Event, how check.Ending) {
	i, ok := s.byToken[e.Token]
	if !ok || s.grants[i].How != check.Open {
		return
	}
	s.grants[i].How, s.grants[i].End = how, e.At
	if how == check.Lost {
		s.note(screen.Warn, "%s noticed in time that it lost the lock, token %d", s.grants[i].Worker, e.Token)
	}
}

// late records that the stopped worker is about to write without the lock. The caller
// holds s.mu.
func (s *state) late(e wire.Event) {
	if e.Token != s.stop.Token {
		return
	}
	s.stop.Late, s.stop.Valid, s.stop.Why = true, e.Valid, e.Err
}

// exited records that a worker's process has ended.
func (s *state) exited(p *process) {
	s.change(func() {
		w := s.workers[p.name]
		w.exited = true
		if p.err != nil && w.state != view.Killed {
			s.failed = append(s.failed, fmt.Errorf("worker %s, pid %d, ended early: %w", p.name, p.pid, p.err))
		}
	})
}

// created records an entry that the service reported.
func (s *state) created(p entry) {
	s.change(func() {
		s.entries[p.token] = &check.Entry{Token: p.token}
		s.insert(p)
	})
}

// deleted records that the service deleted an entry.
func (s *state) deleted(token, rev int64) {
	s.change(func() {
		s.queue = slices.DeleteFunc(s.queue, func(x queued) bool { return x.token == token })
		e := s.entries[token]
		if e != nil {
			e.Deleted = rev
		}
		s.deletedAt[token] = stamp.Now()
	})
}

// endMarked records that the service has reported everything.
func (s *state) endMarked() {
	s.change(func() { s.ended = true })
}

// firstRequest reads the service's first entry while a holder waits for the ledger.
func (s *state) firstRequest(ctx context.Context, svc service, token int64) {
	first, err := svc.first(ctx)
	if ctx.Err() != nil { // the worker has ended
		return
	}
	s.change(func() {
		if err != nil {
			s.failed = append(s.failed, err)
			return
		}
		s.heads = append(s.heads, check.Head{Token: token, First: first})
	})
}
