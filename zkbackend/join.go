package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Join implements driver.Session.
//
// It is one transaction: create the entry, and write the folder's data. The
// second tells what the first does not, in the folder's Stat: Mzxid is the
// transaction that created the entry, its czxid, and NumChildren counts the
// line. If that counts others they are listed, since they may be folders of
// locks whose names go on where this one's ends.
func (s *sess) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	joined, err := s.newJoin(req).run(ctx)
	if err == nil {
		return joined, nil
	}
	if _, ok := errors.AsType[*driver.TakenError](err); ok {
		return joined, err
	}
	if p, ok := errors.AsType[*driver.PendingError](err); ok {
		return joined, &driver.PendingError{Err: fmt.Errorf("zookeeper: join %q: %w", req.Line, p.Err), Settle: p.Settle}
	}
	return joined, fmt.Errorf("zookeeper: join %q: %w", req.Line, err)
}

// join is one request to join, over all its attempts. Each attempt has a name of
// its own, so that what becomes of it can be told.
type join struct {
	s   *sess
	req driver.JoinRequest
	dir string

	guid    string                   // of the attempt that is not settled; "" if all are
	path    string                   // of its entry, if that is known to have been made
	late    <-chan answer[madeEntry] // its answer, if it may still come
	version int32                    // of the folder's data, for IfEmpty; -1 otherwise

	settling sync.Mutex
}

// madeEntry is the answer to the transaction of a join.
type madeEntry struct {
	path  string
	zxid  int64
	ahead int // children of the folder beside this one
	step  int // of the transaction, that failed
}

func (s *sess) newJoin(req driver.JoinRequest) *join {
	return &join{s: s, req: req, dir: s.b.lay.dir(req.Line), version: -1}
}

// run makes attempts until one is answered.
func (j *join) run(ctx context.Context) (driver.Joined, error) {
	for {
		if j.req.IfEmpty {
			if err := j.peek(ctx); err != nil {
				return driver.Joined{}, err
			}
		}
		l, err := j.s.link(ctx)
		if err != nil {
			return driver.Joined{}, err
		}
		made, err := j.attempt(ctx, l)
		switch outcomeOf(err) {
		case done:
			return j.made(ctx, made)
		case refused:
			j.guid = ""
			if err := j.refused(ctx, made.step, err); err != nil {
				return driver.Joined{}, err
			}
		case expired:
			j.guid = ""
			return driver.Joined{}, fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
		case lost:
			joined, again, err := j.resolve(ctx, err)
			if !again {
				return joined, err
			}
		}
	}
}

// attempt sends the transaction under a new name.
func (j *join) attempt(ctx context.Context, l *link) (madeEntry, error) {
	j.guid, j.path = random(guidLen/2), ""
	name := j.s.b.lay.prefix(j.guid, j.s.seal != nil, j.req.Mode, j.req.Weight)
	create := &zk.CreateRequest{
		Path: j.dir + "/" + name, Data: j.req.Meta.Encode(), Acl: j.s.entryACL(), Flags: zk.FlagEphemeral | zk.FlagSequence,
	}
	count := &zk.SetDataRequest{Path: j.dir, Data: j.s.word(j.dir), Version: j.version}
	made, err := once(ctx, j.s, l, func(c *zk.Conn) (madeEntry, error) {
		r, err := c.Multi(create, count)
		if err != nil {
			return madeEntry{step: failedStep(r)}, err
		}
		if len(r) != 2 || r[1].Stat == nil {
			return madeEntry{}, errOddAnswer
		}
		return madeEntry{path: r[0].String, zxid: r[1].Stat.Mzxid, ahead: int(r[1].Stat.NumChildren) - 1}, nil
	})
	j.late = nil
	if a, ok := errors.AsType[*abandonedError[madeEntry]](err); ok {
		j.late = a.late
	}
	return made, err
}

// errOddAnswer: a transaction was answered by something else. What it did is
// not known.
var errOddAnswer = errors.New("zookeeper: a transaction's answer has the wrong form")

// failedStep is which request of a transaction failed. Those before it are
// answered by no error, those behind it by "runtime inconsistency".
func failedStep(rs []zk.MultiResponse) int {
	return max(slices.IndexFunc(rs, func(r zk.MultiResponse) bool { return r.Error != nil }), 0)
}

// refused looks at why an attempt was not done. Nil means that the next may go
// better.
func (j *join) refused(ctx context.Context, step int, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return j.s.makeFolder(ctx, j.dir)
	case errors.Is(err, zk.ErrBadVersion):
		return nil // somebody joined since the folder was read
	case step == 0:
		return translate(err, "CREATE", j.dir)
	}
	return translate(err, "WRITE", j.dir)
}

// made takes in an entry that is known to exist.
func (j *join) made(ctx context.Context, m madeEntry) (driver.Joined, error) {
	j.path = m.path
	_, name := split(m.path)
	n, ok := parseNode(name)
	if !ok {
		return driver.Joined{}, j.giveUp(fmt.Errorf("%w: the server named the entry %q", driver.ErrRefused, m.path))
	}
	if n.seq < 0 || n.seq >= sequenceGuard {
		return j.overflow(ctx, n)
	}
	joined := driver.Joined{Entry: n.entry(j.req.Line, j.dir), Rev: m.zxid, Ahead: 0, Near: true}
	joined.Entry.Token, joined.Entry.Session, joined.Entry.Meta = m.zxid, j.s.ID(), j.req.Meta
	if m.ahead == 0 {
		return joined, nil
	}
	view, err := j.s.view(ctx, j.req.Line, n.seq, j.req.Nearest)
	if err != nil {
		return driver.Joined{}, j.cannotWait(ctx, err)
	}
	joined.Ahead, joined.Known = view.ahead, view.near
	if j.req.IfEmpty && view.ahead > 0 { // a stranger was faster by a moment
		return driver.Joined{}, j.taken(ctx, view)
	}
	return joined, nil
}

// giveUp leaves with an error after the entry was made: then it is to be
// removed, by the caller.
func (j *join) giveUp(err error) error {
	return &driver.PendingError{Err: err, Settle: j.settle}
}

// cannotWait leaves a line that cannot be looked at. Where waiting helps nothing,
// the entry goes before that is told, so that the outcome is known.
func (j *join) cannotWait(ctx context.Context, err error) error {
	if driver.Incurable(err) && j.remove(ctx, j.path) == nil {
		return err
	}
	return j.giveUp(err)
}

// taken leaves a line that was joined in the belief that it was empty.
func (j *join) taken(ctx context.Context, v view) error {
	if err := j.remove(ctx, j.path); err != nil {
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

// peek reads the folder and says if somebody is there.
func (j *join) peek(ctx context.Context) error {
	c, err := j.s.children(ctx, j.dir)
	nodes := parseNodes(c.names)
	if len(nodes) > 0 && j.s.proof != ProofPing {
		// A follower may not have heard yet that the last of them has left. That
		// it has not heard of a new one does no harm: the version is checked.
		if err = j.s.catchUp(ctx); err == nil {
			c, err = j.s.children(ctx, j.dir)
			nodes = parseNodes(c.names)
		}
	}
	if err != nil {
		return translate(err, "READ", j.dir)
	}
	if j.version = c.stat.Version; len(nodes) == 0 {
		return nil
	}
	return j.takenBy(ctx, nodes[0].entry(j.req.Line, j.dir), len(nodes))
}

// resolve finds out what became of an attempt that was not answered. It says
// again if it was not done and never will be.
func (j *join) resolve(ctx context.Context, cause error) (joined driver.Joined, again bool, err error) {
	if errors.Is(cause, driver.ErrSessionOver) || ctx.Err() != nil {
		return joined, false, j.giveUp(cause)
	}
	m, found, err := j.find(ctx, j.s)
	switch {
	case err != nil:
		return joined, false, j.giveUp(err)
	case !found:
		j.guid = ""
		return joined, true, nil
	}
	joined, err = j.made(ctx, m)
	return joined, false, err
}

// find looks for the attempt's entry, in a state of the folder in which it is if
// it was or will be made: requests of the session's older connections are
// refused once the newer one is there, and what was proposed before is flushed
// by Sync.
func (j *join) find(ctx context.Context, s *sess) (m madeEntry, found bool, err error) {
	names, err := ask(ctx, s, func(c *zk.Conn) ([]string, error) {
		if _, err := c.Sync(j.dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		names, _, err := c.Children(j.dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return names, err
	})
	if err != nil {
		return m, false, translate(err, "READ", j.dir)
	}
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, j.guid) })
	if i < 0 {
		return m, false, nil
	}
	m.path, m.ahead = j.dir+"/"+names[i], len(names)-1
	stat, err := ask(ctx, s, func(c *zk.Conn) (*zk.Stat, error) {
		there, stat, err := c.Exists(m.path)
		if err == nil && !there {
			err = zk.ErrNoNode
		}
		return stat, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // somebody deleted it
		return m, false, nil
	case err != nil:
		return m, false, translate(err, "READ", m.path)
	}
	m.zxid = stat.Czxid
	return m, true, nil
}
