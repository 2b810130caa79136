package zkbackend

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// listing is the reading of one folder, shared by all of a session who want it:
// who asks while it is being read gets the next reading, which begins later.
type listing struct {
	next    *reading // not begun yet; nil if nobody waits
	running bool
}

// reading is a folder as it was at some moment after it was asked for. It is
// not changed once done is closed.
type reading struct {
	done  chan struct{}
	nodes []node
	rev   int64 // the transaction that made or removed a child last
	err   error
}

// list reads a folder, by a reading that begins after the call. A folder that
// does not exist is empty.
func (s *sess) list(ctx context.Context, dir string) (*reading, error) {
	s.mu.Lock()
	ls := s.lists[dir]
	if ls == nil {
		ls = &listing{}
		s.lists[dir] = ls
	}
	if ls.next == nil {
		ls.next = &reading{done: make(chan struct{})}
	}
	r := ls.next
	if !ls.running {
		ls.running = s.goes(func() { s.read(dir, ls) })
	}
	running := ls.running
	s.mu.Unlock()
	if !running {
		return nil, driver.ErrSessionOver
	}
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// read makes readings of a folder for as long as somebody wants one.
func (s *sess) read(dir string, ls *listing) {
	for {
		s.mu.Lock()
		r := ls.next
		ls.next = nil
		if r == nil {
			ls.running = false
			delete(s.lists, dir)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		c, err := s.children(s.ctx, dir)
		r.nodes, r.rev = parseNodes(c.names), c.stat.Pzxid
		if err != nil {
			r.err = translate(err, "READ", dir)
		}
		close(r.done)
	}
}

// children is a folder's content.
type children struct {
	names []string
	stat  zk.Stat
}

// children reads a folder; one that does not exist has none, and a data version
// that no write accepts.
func (s *sess) children(ctx context.Context, dir string) (children, error) {
	return ask(ctx, s, readChildren(dir))
}

// view is what a line looks like from one place in it.
type view struct {
	rev   int64
	first driver.Entry   // of those ahead; zero if there are none
	near  []driver.Entry // the nearest of those ahead
	ahead int            // how many are ahead
	at    []driver.Entry // those at the place itself
}

// view reads a line and finds the nearest entries before a place; all of them
// if nearest is 0.
func (s *sess) view(ctx context.Context, line string, place int64, nearest int) (view, error) {
	r, err := s.list(ctx, s.b.lay.dir(line))
	if err != nil {
		return view{}, err
	}
	return s.viewOf(ctx, r, line, place, nearest)
}

// viewOf finds the same in a reading.
func (s *sess) viewOf(ctx context.Context, r *reading, line string, place int64, nearest int) (view, error) {
	dir := s.b.lay.dir(line)
	s.checkMixed(line, r.nodes)
	at, _ := slices.BinarySearchFunc(r.nodes, place, bySeq)
	after, _ := slices.BinarySearchFunc(r.nodes, place+1, bySeq)
	from := 0
	if nearest > 0 {
		from = max(at-nearest, 0)
	}
	v := view{rev: r.rev, ahead: at, near: make([]driver.Entry, 0, at-from)}
	for _, n := range r.nodes[from:at] {
		v.near = append(v.near, n.entry(line, dir))
	}
	for _, n := range r.nodes[at:after] {
		v.at = append(v.at, n.entry(line, dir))
	}
	if at > 0 {
		v.first = r.nodes[0].entry(line, dir)
	}
	return v, s.checkLeases(ctx, v.near)
}

func bySeq(n node, seq int64) int { return int(min(max(n.seq-seq, -1), 1)) }

// Look implements driver.Session. It needs no quorum and no Sync: what a session
// sees never goes back, also not when it changes servers.
//
// The limit is read when the line has been: a smaller one that is in force
// already by then must not be missed. Who was admitted is read with it.
func (s *sess) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	v, err := s.look(ctx, req)
	if err != nil {
		return driver.View{}, fmt.Errorf("zookeeper: read %q: %w", req.Line, err)
	}
	return v, nil
}

func (s *sess) look(ctx context.Context, req driver.LookRequest) (out driver.View, err error) {
	lay := s.b.lay
	var f folders
	together := false
	if req.Limit {
		f, together = s.readTogether(ctx, req.Line)
	}
	r := &reading{nodes: parseNodes(f.line.names), rev: f.line.stat.Pzxid}
	if !together {
		if r, err = s.list(ctx, lay.dir(req.Line)); err != nil {
			return out, err
		}
	}
	v, err := s.viewOf(ctx, r, req.Line, req.Upto, req.Nearest)
	if err != nil {
		return out, err
	}
	out = driver.View{Rev: v.rev, Entries: append(v.near, v.at...), Complete: v.ahead == len(v.near)}
	if !req.Limit {
		return out, nil
	}
	if !together {
		if f.limit, err = s.children(ctx, lay.limit(req.Line)); err != nil {
			return out, translate(err, "READ", lay.limit(req.Line))
		}
		if f.holders, err = s.children(ctx, lay.holders(req.Line)); err != nil {
			return out, translate(err, "READ", lay.holders(req.Line))
		}
	}
	limit, err := f.limit.limit(lay.limit(req.Line))
	out.Limit = limit.limit
	f.holders.mark(out.Entries)
	return out, err
}

// mark marks the entries that were admitted: those of whose names there is a child.
func (c children) mark(entries []driver.Entry) {
	holders := make(map[string]bool, len(c.names))
	for _, bell := range c.names {
		n, _, _ := strings.Cut(bell, anotherBell)
		holders[n] = true
	}
	for i := range entries {
		_, name := split(entries[i].Key)
		entries[i].Admitted = holders[name]
	}
}

// checkLeases marks foreign entries that have no session, and so would stay for
// ever. Ours are made with one. What is known is not asked again.
func (s *sess) checkLeases(ctx context.Context, entries []driver.Entry) error {
	for i := range entries {
		e := &entries[i]
		if !e.Foreign {
			continue
		}
		s.mu.Lock()
		leased, known := s.leased[e.Key]
		s.mu.Unlock()
		if !known {
			stat, err := ask(ctx, s, func(c *zk.Conn) (*zk.Stat, error) {
				_, stat, err := c.Exists(e.Key)
				return stat, err
			})
			if err != nil {
				return translate(err, "READ", e.Key)
			}
			// If it has gone its Stat is empty: then its end will be told.
			leased = stat.EphemeralOwner != 0 || stat.Czxid == 0
			s.mu.Lock()
			jot(s.leased, e.Key, leased)
			s.mu.Unlock()
		}
		e.Unleased = !leased
	}
	return nil
}

// checkMixed tells the log, once for each line, that programs stand there which
// do not see each other: Kazoo looks for other names than Curator does, and each
// of Curator's locks sorts the names of the others wrongly. We see all of them,
// and so the order among ours is right, but nobody else's is.
func (s *sess) checkMixed(line string, nodes []node) {
	seen, mixed := protocols(nodes)
	if !mixed {
		return
	}
	s.mu.Lock()
	told := s.mixed[line]
	jot(s.mixed, line, true)
	s.mu.Unlock()
	if !told {
		s.cfg.Logger.Warn("zookeeper: entries of several protocols in one queue; their owners do not see each other",
			"name", line, "mutex", seen[0], "readwrite", seen[1], "kazoo", seen[2], "latch", seen[3])
	}
}

// protocols gives an example of each protocol in a line, and says whether there
// are several.
func protocols(nodes []node) (seen [4]string, mixed bool) {
	kinds := 0
	for _, n := range nodes {
		k := protocolOf(n)
		if seen[k] == "" {
			kinds++
		}
		seen[k] = n.name
	}
	return seen, kinds > 1
}

// protocolOf says whose names an entry has: those of Curator's mutex, which we
// and go-zookeeper share, of Curator's read-write lock, Kazoo's, or of Curator's
// latch.
func protocolOf(n node) int {
	switch n.marker {
	case markRead, markWrite:
		return 1
	case markKazoo, markKazooRead:
		return 2
	case markLatch:
		return 3
	}
	return 0
}
