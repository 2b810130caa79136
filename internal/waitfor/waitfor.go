// Package waitfor finds deadlocks: callers of whom each holds what another one
// waits for. It is pure.
//
// What is known is what stands in the lines, and what entries say that their
// owner held already when it asked. So it finds what callers say of themselves: in
// Go, whoever asks with the context of a hold. Who holds a lock in one place and
// asks for another with a context that knows nothing of it is not seen.
//
// It does not look for cycles first. Strict order, shared holds and permits make
// waiting more than "one waits for one", so the future is played with everybody
// as kind as can be: who waits for nothing gives back, and the recipes' own rules
// say who holds then. Who never does is in a deadlock, or behind one; and among
// those there is a cycle to be named.
package waitfor

import (
	"slices"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session/driver"
)

// Step is one caller of a cycle.
type Step struct {
	// Owns is the entry of the caller that stands in the way of the step before,
	// in the line of that name: a hold, or a place ahead.
	Owns schema.Entry
	In   string

	// Waits is the entry of the caller that waits, in the line of that name.
	Waits schema.Entry
	For   string
}

// Deadlock is a cycle: what a step owns, the step before waits for.
type Deadlock struct {
	Steps []Step

	// Behind are the other entries that will never hold because of this or
	// another cycle.
	Behind int
}

// Names are the locks of the cycle: who owns the first waits for the second, and
// who owns the last waits for the first.
func (d Deadlock) Names() []string {
	var names []string
	for _, s := range d.Steps {
		names = append(names, s.In)
	}
	return names
}

// Find returns the deadlocks among lines, which must be all that matter.
func Find(lines []schema.Line) []Deadlock {
	g := newGame(lines)
	g.play()
	return g.cycles()
}

// Link is a caller that holds in one line and waits in another, as far as its entry
// says so.
type Link struct {
	// Owns is the hold, in the line of the name In.
	Owns schema.Entry
	In   string

	// Waits is the entry that waits, in the line of the name For.
	Waits schema.Entry
	For   string
}

// Links returns all links between lines, in the order of the lines that are held in.
// Lines without a link are part of no deadlock.
func Links(lines []schema.Line) []Link {
	var all []Link
	for _, row := range newGame(lines).board {
		for _, p := range row {
			for _, q := range p.needs {
				all = append(all, Link{Owns: p.entry, In: lines[p.line].Name, Waits: q.entry, For: lines[q.line].Name})
			}
		}
	}
	return all
}

// piece is an entry on the board.
type piece struct {
	entry schema.Entry
	line  int
	holds bool
	gone  bool

	// with are the other entries of the same request, which holds when all do.
	with []*piece
	// needs are the entries that wait and whose owner gives this one back only
	// after it has held them.
	needs []*piece
}

// stuck says that a piece stays: its request, or another one of its owner's,
// still waits.
func (p *piece) stuck() bool { return p.waits() != nil }

// waits is what a piece's owner waits for, nil if nothing.
func (p *piece) waits() *piece {
	if !p.holds {
		return p
	}
	for _, q := range slices.Concat(p.with, p.needs) {
		if !q.gone && !q.holds {
			return q
		}
	}
	for _, q := range p.needs { // it holds in this line, but not in all of its request's
		for _, r := range q.with {
			if !q.gone && !r.gone && !r.holds {
				return r
			}
		}
	}
	return nil
}

type game struct {
	lines []schema.Line
	board [][]*piece // by line, in order
}

func newGame(lines []schema.Line) *game {
	g := &game{lines: lines, board: make([][]*piece, len(lines))}
	byName := map[string]int{}
	type request struct {
		token   int64
		session string
	}
	requests := map[request][]*piece{}
	for i, l := range lines {
		byName[l.Name] = i
		for _, e := range l.Entries {
			p := &piece{entry: e, line: i, holds: e.State == schema.Holder}
			g.board[i] = append(g.board[i], p)
			if r := (request{e.Token, e.Session}); e.Token != 0 && e.Session != "" {
				requests[r] = append(requests[r], p)
			}
		}
	}
	for _, all := range requests {
		for _, p := range all {
			for _, q := range all {
				if p != q {
					p.with = append(p.with, q)
				}
			}
		}
	}
	for _, row := range g.board {
		for _, p := range row {
			if p.holds && len(p.with) == 0 {
				continue
			}
			for _, name := range p.entry.Holds {
				if i, ok := byName[name]; ok {
					g.claim(g.board[i], p)
				}
			}
		}
	}
	return g
}

// claim finds the hold that a waiter says its owner has: one of its own session,
// or else one that another process of the same host asked for earlier, since a
// command says what those hold that it runs under. Where several may be meant,
// none is claimed: better a deadlock that is not found than one that is none.
func (g *game) claim(row []*piece, waiter *piece) {
	own := holding(row, waiter, func(e, w schema.Entry) bool { return e.Session == w.Session })
	if len(own) == 0 {
		own = holding(row, waiter, func(e, w schema.Entry) bool {
			return e.Host != "" && e.Host == w.Host && e.PID != w.PID && !e.Since.After(w.Since.Time)
		})
	}
	if len(own) == 1 {
		own[0].needs = append(own[0].needs, waiter)
	}
}

// holding are the pieces of a row that hold and may be a waiter's owner's.
func holding(row []*piece, waiter *piece, may func(e, w schema.Entry) bool) (all []*piece) {
	for _, p := range row {
		if p.holds && p != waiter && p.entry.Session != "" && may(p.entry, waiter.entry) {
			all = append(all, p)
		}
	}
	return all
}

// play takes away what can be given back and lets hold who then may, until
// nothing changes.
func (g *game) play() {
	for changed := true; changed; {
		changed = false
		for i, row := range g.board {
			for _, p := range row {
				p.gone = !p.stuck()
				changed = changed || p.gone
			}
			g.board[i] = slices.DeleteFunc(row, func(p *piece) bool { return p.gone })
		}
		for i := range g.board {
			g.admit(i)
		}
	}
}

// admit lets hold who may. Nobody overtakes: behind the first that may not, nobody
// does who has not before.
func (g *game) admit(i int) {
	ahead := rule.Ahead{Complete: true, Limit: g.lines[i].Limit}
	for _, p := range g.board[i] {
		e := ruled(p.entry)
		if !p.holds && !ruleOf(e).Decide(ahead, e).Hold {
			return
		}
		p.holds = true
		ahead.Entries = append(ahead.Entries, e)
		ahead.Count++
	}
}

func ruleOf(e *driver.Entry) rule.Rule {
	if e.Mode == driver.Weighted && !e.Foreign {
		return rule.Semaphore()
	}
	return rule.ReadWrite()
}

// ruled is an entry as far as rules look at it.
func ruled(e schema.Entry) *driver.Entry {
	out := &driver.Entry{Ref: driver.Ref{Key: e.Key, Place: int64(e.Place)}, Weight: e.Weight, Foreign: e.Foreign}
	switch e.Mode {
	case driver.Shared.String():
		out.Mode = driver.Shared
	case driver.Weighted.String():
		out.Mode = driver.Weighted
	}
	return out
}

// cycles finds cycles among the pieces that are left. Each that waits has one
// ahead of it that stays, whose owner waits in turn; so who goes from one to the
// next comes round.
func (g *game) cycles() []Deadlock {
	left := 0
	seen := map[*piece]int{} // in which walk
	var found []Deadlock
	for walk, p := range g.waiting() {
		left++
		var path []Step
		for at := p; at != nil && seen[at] == 0; {
			seen[at] = walk + 1
			blocker := g.blocker(at)
			if blocker == nil {
				break
			}
			next := blocker.waits()
			path = append(path, Step{Waits: at.entry, For: g.lines[at.line].Name, Owns: blocker.entry})
			if next == nil {
				break
			}
			if seen[next] == walk+1 {
				found = append(found, deadlock(path, next.entry, g.lines[next.line].Name))
				break
			}
			at = next
		}
	}
	members := 0
	for _, d := range found {
		members += len(d.Steps)
	}
	for i := range found {
		found[i].Behind = left - members
	}
	return found
}

// deadlock makes a cycle of the end of a path. There a step's Owns is still that
// of the next caller.
func deadlock(path []Step, first schema.Entry, name string) Deadlock {
	begin := slices.IndexFunc(path, func(s Step) bool { return s.For == name && s.Waits.Key == first.Key && s.Waits.Token == first.Token })
	round := path[max(begin, 0):]
	var d Deadlock
	for i, s := range round {
		before := round[(i+len(round)-1)%len(round)]
		d.Steps = append(d.Steps, Step{Owns: before.Owns, In: before.For, Waits: s.Waits, For: s.For})
	}
	return d
}

// waiting are the pieces that will never hold.
func (g *game) waiting() []*piece {
	var all []*piece
	for _, row := range g.board {
		for _, p := range row {
			if !p.holds {
				all = append(all, p)
			}
		}
	}
	return all
}

// blocker is the first piece ahead that stands in the way.
func (g *game) blocker(p *piece) *piece {
	for _, q := range g.board[p.line] {
		switch {
		case q == p:
			return nil
		case p.entry.Mode == driver.Shared.String() && q.entry.Mode == driver.Shared.String():
		default:
			return q
		}
	}
	return nil
}
