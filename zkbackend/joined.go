package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// made takes in entries that are known to exist.
func (j *join) made(ctx context.Context, m madeEntries) ([]driver.Joined, error) {
	all := make([]driver.Joined, len(j.parts))
	for i := range j.parts {
		j.parts[i].path = m.of[i].path
	}
	for i, p := range j.parts {
		_, name := split(p.path)
		n, ok := parseNode(name)
		switch {
		case !ok:
			return nil, j.giveUp(fmt.Errorf("%w: the server named the entry %q", driver.ErrRefused, p.path))
		case n.seq < 0 || n.seq >= sequenceGuard:
			return j.overflow(ctx, p, n)
		}
		all[i] = driver.Joined{Entry: n.entry(p.req.Line, p.dir), Rev: m.zxid, Near: true}
		e := &all[i].Entry
		e.Token, e.Session, e.Meta, e.Value = m.zxid, j.s.ID(), p.req.Meta, p.req.Value
	}
	all[0].Limit, all[0].Entered = j.limit, j.ledger
	if j.ledger {
		all[0].Past = driver.PastClean // there was no name
	}
	if err := j.look(ctx, m, all); err != nil {
		return nil, err
	}
	j.learned(m, all[0])
	return all, nil
}

// look finds out who is ahead, where somebody may be.
func (j *join) look(ctx context.Context, m madeEntries, all []driver.Joined) error {
	views := make([]view, len(all))
	err := each(ctx, all, func(ctx context.Context, i int) (err error) {
		if p := j.parts[i]; m.of[i].ahead > 0 {
			views[i], err = j.s.view(ctx, p.req.Line, all[i].Entry.Place, p.req.Nearest)
			all[i].Ahead, all[i].Known = views[i].ahead, views[i].near
		}
		return err
	})
	if err != nil {
		return j.cannotWait(ctx, err)
	}
	for i, p := range j.parts {
		own := func(e driver.Entry) bool { return e.Ref == all[i].Entry.Ref }
		switch {
		case m.of[i].ahead > 0 && !slices.ContainsFunc(views[i].at, own):
			return errVanished
		case p.req.IfEmpty && views[i].ahead > 0: // a stranger was faster by a moment
			return j.taken(ctx, views[i])
		}
	}
	return nil
}

// errVanished: somebody has deleted an entry before it was seen who was ahead. Who
// stood there at a later moment says nothing of whether it ever came first.
var errVanished = errors.New("zookeeper: the entry was deleted at once")

// startOver makes sure that nothing is left of an attempt, so that another may be
// made.
func (j *join) startOver(ctx context.Context) error {
	if err := j.removeAll(ctx); err != nil {
		return j.giveUp(err)
	}
	j.closed()
	return nil
}

// learned notes what the next join of the line may believe.
func (j *join) learned(m madeEntries, first driver.Joined) {
	r := j.parts[0].req
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range j.parts {
		if n := s.mine[p.mark(j.guid)]; n != nil {
			n.token = m.zxid
		}
	}
	if r.Limit != 0 {
		jot(s.limits, r.Line, j.limit)
	}
	if r.Ledger {
		jot(s.crowded, r.Line, first.Ahead > 0)
	}
}

// giveUp leaves with an error after entries were made: then they are to be
// removed, by the caller.
func (j *join) giveUp(err error) error {
	return &driver.PendingError{Err: err, Settle: j.settle}
}

// cannotWait leaves a line that cannot be looked at. Where waiting helps nothing,
// the entry goes before that is told, so that the outcome is known.
func (j *join) cannotWait(ctx context.Context, err error) error {
	if driver.Incurable(err) && j.removeAll(ctx) == nil {
		return err
	}
	return j.giveUp(err)
}

// taken leaves a line that was joined in the belief that it was empty.
func (j *join) taken(ctx context.Context, v view) error {
	if err := j.removeAll(ctx); err != nil {
		return j.giveUp(err)
	}
	return j.takenBy(ctx, v.first, v.ahead)
}

// takenBy is the error of a line that is not empty. That it says little of who
// is first is no reason to fail in another way.
func (j *join) takenBy(ctx context.Context, first driver.Entry, count int) error {
	if e, err := j.s.describe(ctx, first); err == nil {
		first = e
	}
	return &driver.TakenError{First: first, Count: count}
}

// peek reads the folders that must be empty, and says if somebody is there.
func (j *join) peek(ctx context.Context) error {
	taken := make([]error, len(j.parts))
	err := each(ctx, j.parts, func(ctx context.Context, i int) (err error) {
		if !j.parts[i].req.IfEmpty {
			return nil
		}
		err = j.peekAt(ctx, &j.parts[i])
		if _, ok := errors.AsType[*driver.TakenError](err); ok {
			taken[i], err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, err := range taken {
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *join) peekAt(ctx context.Context, p *part) error {
	c, err := j.s.children(ctx, p.dir)
	nodes := parseNodes(c.names)
	if len(nodes) > 0 && j.s.proof != ProofPing {
		// A follower may not have heard yet that the last of them has left. That
		// it has not heard of a new one does no harm: the version is checked.
		if err = j.s.catchUp(ctx); err == nil {
			c, err = j.s.children(ctx, p.dir)
			nodes = parseNodes(c.names)
		}
	}
	if err != nil {
		return translate(err, "READ", p.dir)
	}
	if p.version = c.stat.Version; len(nodes) == 0 {
		return nil
	}
	err = j.takenBy(ctx, nodes[0].entry(p.req.Line, p.dir), len(nodes))
	taken, ok := errors.AsType[*driver.TakenError](err)
	if ok && !p.cleared && taken.First.Session == j.s.ID() && j.s.isDebris(p.req.Line, nodes[0], j.s.who.id) {
		p.cleared = true
		j.s.clearDebris(ctx, p.req.Line, nodes[0])
		return j.peekAt(ctx, p)
	}
	return err
}

// resolve finds out what became of an attempt that was not answered. It says
// again if it was not done. If it is done later, its entry is debris.
func (j *join) resolve(ctx context.Context, cause error) (joined []driver.Joined, again bool, err error) {
	if errors.Is(cause, driver.ErrSessionOver) || ctx.Err() != nil {
		return nil, false, j.giveUp(cause)
	}
	m, found, err := j.find(ctx, j.s)
	switch {
	case err != nil:
		return nil, false, j.giveUp(err)
	case found == 0:
		j.notThere()
		j.closed()
		return nil, true, nil
	case found == len(j.parts):
		if joined, err = j.made(ctx, m); !errors.Is(err, errVanished) {
			return joined, false, err
		}
	}
	err = j.startOver(ctx) // it was done, and somebody has deleted one
	return nil, err == nil, err
}

// find looks for the attempt's entries, and notes their paths. Sync flushes what
// was proposed before. Where the session has moved to another server, requests of
// its older connections are refused from then on, so an entry that is not there
// will never be. Where it has not moved, the server may still be working on what it
// has read of the old connection; see debris.
func (j *join) find(ctx context.Context, s *sess) (m madeEntries, found int, err error) {
	m.of = make([]madeEntry, len(j.parts))
	stats := make([]*zk.Stat, len(j.parts))
	err = each(ctx, j.parts, func(ctx context.Context, i int) (err error) {
		m.of[i], stats[i], err = j.findIn(ctx, s, j.parts[i].dir)
		return err
	})
	if err != nil {
		return m, 0, err
	}
	for i, stat := range stats {
		if j.parts[i].path = m.of[i].path; stat != nil {
			found, m.zxid = found+1, stat.Czxid
		}
	}
	return m, found, nil
}

// findIn looks into one folder; there is no Stat if the entry is not there.
func (j *join) findIn(ctx context.Context, s *sess, dir string) (m madeEntry, _ *zk.Stat, _ error) {
	names, err := s.newest(ctx, dir)
	if err != nil {
		return m, nil, err
	}
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, j.guid) })
	if i < 0 {
		return m, nil, nil
	}
	path := dir + "/" + names[i]
	stat, err := s.exists(ctx, path)
	if err != nil || stat == nil { // somebody deleted it
		return m, nil, err
	}
	return madeEntry{path: path, ahead: len(names) - 1}, stat, nil
}

// newest reads a folder's children as they are now, and as they are after all
// that this session has sent before. A folder that is not there has none.
func (s *sess) newest(ctx context.Context, dir string) ([]string, error) {
	names, err := ask(ctx, s, func(c *zk.Conn) ([]string, error) {
		if _, err := c.Sync(dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		names, _, err := c.Children(dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return names, err
	})
	if err != nil {
		return nil, translate(err, "READ", dir)
	}
	return names, nil
}

// exists reads a node's Stat; nil if there is none.
func (s *sess) exists(ctx context.Context, path string) (*zk.Stat, error) {
	stat, err := ask(ctx, s, func(c *zk.Conn) (*zk.Stat, error) {
		there, stat, err := c.Exists(path)
		if !there {
			stat = nil
		}
		return stat, err
	})
	if err != nil {
		return nil, translate(err, "READ", path)
	}
	return stat, nil
}
