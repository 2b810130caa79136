package zkbackend

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// leave is one call of Leave, over all its attempts. Only the deletion of the entries is
// needed: a server may refuse anything else for reasons that nobody here knows, so the
// transaction is sent again without it.
type leave struct {
	s      *zkSession
	sender sender
	parts  []*leavePart
	noWord bool // the servers refuse the words
	noOps  bool // an Op was refused
}

// leavePart is what becomes of one entry.
type leavePart struct {
	req    driver.LeaveRequest
	name   entryName
	own    *ownEntry // nil if the entry is not one of this session
	over   bool      // it is gone
	left   driver.Left
	beside []string // nodes to be deleted with it

	ops     *opSet
	refused []func(context.Context) error // what is to be made of refused Ops when the entry is gone
}

func newLeave(s *zkSession, reqs []driver.LeaveRequest) *leave {
	l := &leave{s: s, sender: sender{conn: s.conn}}
	for _, req := range reqs {
		ops := slices.Clone(req.Ops)
		for i := range ops {
			ops[i].Optional = true
		}
		p := &leavePart{req: req, ops: newOps(s, req.Ref.Queue, ops)}
		l.parts = append(l.parts, p)
		folder, _ := split(req.Ref.Key)
		if n, ok := nameOf(req.Ref); ok && folder == s.b.lay.folder(req.Ref.Queue) {
			if p.name = n; !req.Any { // or a call of the owner may be under way
				p.own = s.own.of(ownKey{req.Ref.Queue, n.guid})
			}
		} // else no entry has this key and this place
		if p.own == nil {
			continue
		}
		p.own.leaving.Store(true)
		if p.own.detail > 0 || p.own.tried {
			p.beside = append(p.beside, s.b.lay.details(req.Ref.Queue)+"/"+p.name.guid)
		}
		if p.own.holder.Load() {
			p.beside = append(p.beside, s.b.lay.holders(req.Ref.Queue)+"/"+p.name.guid)
		}
	}
	return l
}

// do is Leave.
func (l *leave) do(ctx context.Context) ([]driver.Left, error) {
	for _, p := range l.parts {
		if p.own == nil {
			if err := l.identify(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	for {
		t := l.transaction()
		if len(t) == 0 {
			break
		}
		zxid, failed, err := l.sender.send(ctx, t)
		if err == nil {
			l.done(zxid)
			break
		}
		if err := l.refused(failed, err); err != nil {
			return nil, err
		}
	}
	left := make([]driver.Left, len(l.parts))
	for i, p := range l.parts {
		if left[i] = p.left; p.own != nil {
			l.s.own.forget(ownKey{p.req.Ref.Queue, p.name.guid})
		}
		if err := l.finish(ctx, p); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// identify looks at an entry that is not registered. It is gone, or it is the entry of
// another session, which only an operator may delete. What is next to it that session
// deletes when it learns of that, or it ends with the session. The names of some other
// programs have no random part, and a folder that was removed and made again gives the same
// numbers: so of a foreign entry the czxid must be what the session has read.
func (l *leave) identify(ctx context.Context, p *leavePart) error {
	path := p.req.Ref.Key
	if p.name.text == "" {
		path = l.s.b.lay.folder(p.req.Ref.Queue) + neverThere
	}
	czxid, seen := l.s.nodes.get(p.req.Ref.Key)
	var b batch
	b.add(conn.Exists(path), func(a conn.Answer) error {
		switch {
		case isMissing(a.Err), a.Err == nil && seen && a.Stat.Czxid != czxid:
			l.gone(p)
		case a.Err != nil:
			return translate(a.Err, "READ", path)
		case !p.req.Any && a.Stat.EphemeralOwner != l.s.conn.Owner():
			return fmt.Errorf("%w: %s is the entry of another session", driver.ErrRefused, path)
		}
		return nil
	})
	return b.run(ctx, l.s, true)
}

// transaction deletes the entries that are not known to be gone.
func (l *leave) transaction() (t transaction) {
	for i, p := range l.parts {
		if !p.over {
			if p.req.First && p.own != nil && p.name.sealed && l.s.seal != nil && !l.noWord {
				t = append(t, step{role: toWord, of: i, req: setData(p.req.Ref.Key, nil, -1)})
			}
			t = append(t, step{role: toDelete, of: i, req: remove(p.req.Ref.Key)})
		}
		for _, path := range p.beside {
			t = append(t, step{role: toClear, of: i, req: remove(path)})
		}
		t = append(t, p.ops.steps(i)...)
	}
	return t
}

// done takes in that the transaction was carried out.
func (l *leave) done(zxid int64) {
	for _, p := range l.parts {
		if !p.over {
			p.over, p.left = true, driver.Deleted
		}
		p.ops.done(zxid)
	}
}

// gone takes in that an entry is not there. Then only its bound records are changed.
func (l *leave) gone(p *leavePart) {
	if p.over, p.left = true, driver.WasGone; l.sender.unsure {
		p.left = driver.Unclear
	}
	p.ops.leaveOut(false, true)
}

// refused takes in why the transaction was not carried out. Nil means that the next may be.
func (l *leave) refused(st step, err error) error {
	p := l.parts[st.of]
	switch {
	case isClassified(err):
		return err
	case (st.role == toDelete || st.role == toWord) && isMissing(err):
		l.gone(p)
	case st.role == toWord:
		l.noWord = true // what refuses one, a quota, refuses all: the waiters behind read
	case st.role == toClear:
		// It is not there, or may not be deleted: then it ends with its session.
		p.beside = slices.DeleteFunc(p.beside, func(path string) bool { return path == st.req.(*zk.DeleteRequest).Path }) //nolint:forcetypeassert // transaction
	case st.role == toOp:
		// It is left out, and at the second time so are all Ops. What comes of them is
		// found out when the entries are gone.
		p.refused = append(p.refused, func(ctx context.Context) error { return p.ops.refused(ctx, st, err, l.sender.unsure) })
		p.ops.plans[st.op].later = true
		for _, other := range l.parts {
			if l.noOps {
				other.ops.leaveOut(true, false)
			}
		}
		l.noOps = true
	default:
		folder, _ := split(p.req.Ref.Key)
		return translate(err, "DELETE", folder)
	}
	return nil
}

// finish does the Ops that were not part of the transaction: those that were left out, and
// those whose records must be read first, which must not hold up the release. They require
// versions, so they change nothing that was written meanwhile.
func (l *leave) finish(ctx context.Context, p *leavePart) error {
	p.ops.leaveOut(false, false)
	for _, refused := range p.refused {
		if err := refused(ctx); err != nil {
			return err
		}
	}
	for {
		if err := p.ops.prepare(ctx, l.sender.unsure); err != nil {
			return err
		}
		t := p.ops.steps(0)
		if len(t) == 0 {
			return nil
		}
		zxid, failed, err := l.sender.send(ctx, t)
		if err == nil {
			p.ops.done(zxid)
			return nil
		}
		if err := p.ops.refused(ctx, failed, err, l.sender.unsure); err != nil {
			return err
		}
	}
}
