// Package waitfor finds deadlocks: owners of which each holds what another one waits
// for. It is pure.
//
// It knows the queues, and the names that an entry's owner claimed to hold when it
// asked. In Go, a request has that claim if its context is the context of a hold. A
// deadlock of owners that claim nothing is not found.
//
// Shared holds, permits and strict order make waiting more than an edge from one
// owner to another, so a cycle alone proves nothing. Find reduces the queues, as in
// R. C. Holt, "Some Deadlock Properties of Computer Systems" (1972): an owner that
// waits for nothing releases all it has, the recipes' rules decide which waiters hold
// then, and so on. The entries that are left are in a deadlock or behind one, and
// among them is a cycle.
package waitfor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session/driver"
)

// Step is one owner of a cycle.
type Step struct {
	// Owns is the owner's entry that blocks the step before, in the queue of the
	// name In: a hold, or a place ahead.
	Owns schema.Entry
	In   string

	// Waits is the owner's entry that waits, in the queue of the name For.
	Waits schema.Entry
	For   string
}

// Deadlock is a cycle: each step waits for what the next one owns.
type Deadlock struct {
	Steps []Step

	// Behind is the number of other entries that will never hold because of this
	// or another cycle.
	Behind int

	// Among are the names of the queues that show the deadlock: those of all entries that
	// stay because of this or another cycle.
	Among []string
}

// ID returns a text that identifies the cycle, whichever step is the first.
func (d Deadlock) ID() string {
	var all []string
	for _, s := range d.Steps {
		all = append(all, fmt.Sprintf("%s %d %s %d", s.For, s.Waits.Token, s.In, s.Owns.Token))
	}
	slices.Sort(all)
	return strings.Join(all, ";")
}

// Names returns the locks of the cycle: the owner of the first waits for the second,
// and the owner of the last waits for the first.
func (d Deadlock) Names() []string {
	var names []string
	for _, s := range d.Steps {
		names = append(names, s.In)
	}
	return names
}

// Find returns the deadlocks among queues. They must be all queues in which the
// owners have entries.
func Find(queues []schema.Queue) []Deadlock {
	g := newGraph(queues)
	g.reduce()
	return g.cycles()
}

// Link is an owner that holds in one queue and waits in another, as its entry claims, or
// because both entries are of one request for several locks.
type Link struct {
	// Owns is the hold, in the queue of the name In.
	Owns schema.Entry
	In   string

	// Waits is the entry that waits, in the queue of the name For.
	Waits schema.Entry
	For   string
}

// Links returns all links between queues, in the order of the queues of the holds.
// Queues without a link are part of no deadlock.
func Links(queues []schema.Queue) []Link {
	var all []Link
	for _, nodes := range newGraph(queues).nodes {
		for _, n := range nodes {
			if !n.holds {
				continue
			}
			for _, w := range slices.Concat(n.with, n.before) {
				if !w.holds {
					all = append(all, Link{Owns: n.entry, In: queues[n.queue].Name, Waits: w.entry, For: queues[w.queue].Name})
				}
			}
		}
	}
	return all
}

// node is an entry.
type node struct {
	entry    schema.Entry
	queue    int
	holds    bool
	released bool

	// with are the other entries of the same request. The request is granted when
	// all of them hold.
	with []*node
	// before are the waiting entries that the owner of this hold must be granted
	// before it releases the hold.
	before []*node
}

// waits returns the entry that the node's owner waits for, or nil.
func (n *node) waits() *node {
	if !n.holds {
		return n
	}
	for _, w := range slices.Concat(n.with, n.before) {
		if !w.released && !w.holds {
			return w
		}
	}
	for _, w := range n.before { // it holds in this queue, but not in all of its request's
		for _, other := range w.with {
			if !w.released && !other.released && !other.holds {
				return other
			}
		}
	}
	return nil
}

type graph struct {
	queues []schema.Queue
	nodes  [][]*node // by queue, in order
}

func newGraph(queues []schema.Queue) *graph {
	g := &graph{queues: queues, nodes: make([][]*node, len(queues))}
	byName := map[string]int{}
	type request struct {
		token   int64
		session string
	}
	requests := map[request][]*node{}
	for i, q := range queues {
		byName[q.Name] = i
		for _, e := range q.Entries {
			n := &node{entry: e, queue: i, holds: e.State == schema.Holder}
			g.nodes[i] = append(g.nodes[i], n)
			r := (request{e.Token, e.Session})
			if e.Token != 0 && e.Session != "" {
				requests[r] = append(requests[r], n)
			}
		}
	}
	for _, all := range requests {
		for _, n := range all {
			for _, other := range all {
				if n != other {
					n.with = append(n.with, other)
				}
			}
		}
	}
	for _, nodes := range g.nodes {
		for _, n := range nodes {
			if n.holds && len(n.with) == 0 {
				continue
			}
			for _, name := range n.entry.Holds {
				if i, ok := byName[name]; ok {
					link(g.nodes[i], n)
				}
			}
		}
	}
	return g
}

// link finds the hold that a waiter's owner claims to have in a queue: one of the
// waiter's session, or else one that another process of the same host asked for
// earlier, because a command claims the holds of the commands that it runs under. If
// several holds fit, it links none: to miss a deadlock is better than to report one
// that is none.
func link(nodes []*node, waiter *node) {
	own := holding(nodes, waiter, func(e, w schema.Entry) bool { return e.Session == w.Session })
	if len(own) == 0 {
		own = holding(nodes, waiter, func(e, w schema.Entry) bool {
			return e.Host != "" && e.Host == w.Host && e.PID != w.PID && !e.Since.After(w.Since.Time)
		})
	}
	if len(own) == 1 {
		own[0].before = append(own[0].before, waiter)
	}
}

// holding returns the nodes that hold and may belong to a waiter's owner.
func holding(nodes []*node, waiter *node, may func(e, w schema.Entry) bool) (all []*node) {
	for _, n := range nodes {
		if n.holds && n != waiter && n.entry.Session != "" && may(n.entry, waiter.entry) {
			all = append(all, n)
		}
	}
	return all
}

// reduce removes the entries whose owners wait for nothing and lets the waiters hold
// that then may, until nothing changes.
func (g *graph) reduce() {
	for changed := true; changed; {
		changed = false
		for i, nodes := range g.nodes {
			for _, n := range nodes {
				n.released = n.waits() == nil
				changed = changed || n.released
			}
			g.nodes[i] = slices.DeleteFunc(nodes, func(n *node) bool { return n.released })
		}
		for i := range g.nodes {
			g.grant(i)
		}
	}
}

// grant lets waiters of a queue hold, in order, up to the first that may not: no
// waiter overtakes another.
func (g *graph) grant(i int) {
	ahead := rule.Ahead{Complete: true, Limit: g.queues[i].Limit}
	for _, n := range g.nodes[i] {
		e := ruled(n.entry)
		if !n.holds && !rule.For(e).Decide(ahead, e).Hold {
			return
		}
		n.holds = true
		ahead.Entries = append(ahead.Entries, e)
		ahead.Count++
	}
}

// ruled returns the fields of an entry that rules read.
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

// cycles returns the cycles among the nodes that are left. Each waiter among them has
// a node ahead of it that stays, whose owner waits too, so a walk from owner to owner
// comes back to a node that it has seen.
func (g *graph) cycles() []Deadlock {
	left := 0
	seen := map[*node]int{} // in which walk
	var found []Deadlock
	for walk, n := range g.waiting() {
		left++
		var path []Step
		for at := n; at != nil && seen[at] == 0; {
			seen[at] = walk + 1
			blocker := g.blocker(at)
			if blocker == nil {
				break
			}
			next := blocker.waits()
			path = append(path, Step{Waits: at.entry, For: g.queues[at.queue].Name, Owns: blocker.entry})
			if next == nil {
				break
			}
			if seen[next] == walk+1 {
				found = append(found, deadlock(path, next.entry, g.queues[next.queue].Name))
				break
			}
			at = next
		}
	}
	members := 0
	for _, d := range found {
		members += len(d.Steps)
	}
	var among []string
	for i, nodes := range g.nodes {
		if len(nodes) > 0 {
			among = append(among, g.queues[i].Name)
		}
	}
	for i := range found {
		found[i].Behind, found[i].Among = left-members, among
	}
	return found
}

// deadlock makes a Deadlock of the end of a path, from the step that waits with first
// in the queue of the given name. In a path, Owns is the entry of the next owner.
func deadlock(path []Step, first schema.Entry, name string) Deadlock {
	begin := slices.IndexFunc(path, func(s Step) bool { return s.For == name && s.Waits.Key == first.Key && s.Waits.Token == first.Token })
	cycle := path[max(begin, 0):]
	var d Deadlock
	for i, s := range cycle {
		before := cycle[(i+len(cycle)-1)%len(cycle)]
		d.Steps = append(d.Steps, Step{Owns: before.Owns, In: before.For, Waits: s.Waits, For: s.For})
	}
	return d
}

// waiting returns the nodes that will never hold.
func (g *graph) waiting() []*node {
	var all []*node
	for _, nodes := range g.nodes {
		for _, n := range nodes {
			if !n.holds {
				all = append(all, n)
			}
		}
	}
	return all
}

// blocker returns the first node ahead that a waiter must wait for.
func (g *graph) blocker(waiter *node) *node {
	for _, n := range g.nodes[waiter.queue] {
		switch {
		case n == waiter:
			return nil
		case waiter.entry.Mode == driver.Shared.String() && n.entry.Mode == driver.Shared.String():
		default:
			return n
		}
	}
	return nil
}
