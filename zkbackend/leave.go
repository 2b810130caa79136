package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// leave is one call of Leave. It must delete the entries. Everything else is optional, and a
// server may refuse it for any reason: then the transaction is sent again without that part.
//
//	step       is refused                       the next attempt is without
//	toNotice   for a quota or a permission      all release notices
//	toClear    for any reason                   the deletion of that node
//	toOp       for any reason                   that Op, and from the second refusal on without all
//	toDelete   because the entry is not there   that entry, and its Ops but those of bound records
//	toDelete   for a permission                 the call fails
//
// What was left out of the Ops is done afterwards, one queue after the other: finish.
type leave struct {
	s      *zkSession
	sender sender
	parts  []*leavePart // one for each request, in their order

	noNotice bool // a server has refused a release notice
	noOps    bool // a server has refused an Op
}

// leavePart is what becomes of one entry.
type leavePart struct {
	req driver.LeaveRequest

	// name is that of the entry; its text is "" if no entry of the queue has the key and the place of
	// the request.
	name entryName

	// own is the entry in the registry. It is nil for the entry of another session, which identify
	// reads first, and for an eviction, since another call of the owner may be under way.
	own *ownEntry

	// over: the entry is gone, and left is how it went. Nothing but its Ops is left to do then.
	over bool
	left driver.Left

	// attached are nodes that may exist and are deleted with the entry: its detail, and its node among
	// the holders. A node that a server refuses to delete leaves the list; it ends with the session.
	attached []string

	// ops are the Ops of the request, all of them optional.
	ops *opSet

	// refused decide about the Ops that were refused. They run when the entry is gone, because a
	// release does not wait for a read.
	refused []func(context.Context) error
}

func newLeave(s *zkSession, reqs []driver.LeaveRequest) *leave {
	l := &leave{s: s, sender: sender{conn: s.conn}}
	for _, req := range reqs {
		ops := slices.Clone(req.Ops)
		for i := range ops {
			ops[i].Optional = true
		}
		p := &leavePart{req: req, ops: newOps(s, &l.sender, req.Ref.Queue, ops)}
		l.parts = append(l.parts, p)
		l.find(p)
	}
	return l
}

// find sets what the session knows of the entry.
func (l *leave) find(p *leavePart) {
	lay, ref := l.s.b.lay, p.req.Ref
	folder, _ := split(ref.Key)
	n, ok := nameOf(ref)
	if !ok || folder != lay.folder(ref.Queue) {
		return
	}
	p.name = n
	if !p.req.Any {
		p.own = l.s.own.of(ownKey{ref.Queue, n.guid})
	}
	if p.own == nil {
		return
	}
	p.own.leaving.Store(true)
	if p.own.detail {
		p.attached = append(p.attached, lay.details(ref.Queue)+"/"+n.guid)
	}
	if p.own.holder.Load() {
		p.attached = append(p.attached, lay.holders(ref.Queue)+"/"+n.guid)
	}
}

// do is Leave. The entries are deleted together, first; then each does what is left of its Ops.
// After an error of the first step it is unknown whether the entries are gone, unless the error
// wraps driver.ErrDenied or driver.ErrRefused. After one of the second they are gone, and a
// second call finds that and does not repeat the Ops, except those of bound records.
func (l *leave) do(ctx context.Context) ([]driver.Left, error) {
	for _, p := range l.parts {
		if p.own == nil {
			if err := l.identify(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	if err := l.sender.run(ctx, l); err != nil {
		return nil, err
	}
	left := make([]driver.Left, len(l.parts))
	for i, p := range l.parts {
		left[i] = p.left
		if p.own != nil {
			l.s.own.forget(ownKey{p.req.Ref.Queue, p.name.guid})
		}
		if err := l.finish(ctx, p); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// identify reads an entry that is not registered. It is gone, or it belongs to another session:
// only an operator may delete it then. Its owner deletes the nodes that are attached to it, or
// they end with the owner's session.
//
// Some other programs use a name again, and a folder that was made anew counts from 0. So an entry
// whose name is not unique must have the czxid that this session has read. A unique name is enough,
// also where the session may not read the node: to delete it, DELETE on the folder is needed only.
//
//	the read of the node              seen by this session   name         Any   what follows
//	NoNode                                                                      WasGone
//	found, with another czxid         yes                                       WasGone
//	NoAuth                                                   unique       yes   it is deleted
//	another error                                                               the error
//	found                             no                     not unique         refused: read the queue again
//	found, not of this session                                            no    refused: another session's
//	found                             yes, or the name is unique                it is deleted
func (l *leave) identify(ctx context.Context, p *leavePart) error {
	path := p.req.Ref.Key
	if p.name.text == "" {
		path += neverThere // no entry has this key and this place
	}
	czxid, seen := l.s.nodes.get(p.req.Ref.Key)
	var b batch
	b.add(conn.Exists(path), func(a conn.Answer) error {
		switch {
		case isMissing(a.Err), a.Err == nil && seen && a.Stat.Czxid != czxid:
			l.gone(p)
		case errors.Is(a.Err, zk.ErrNoAuth) && p.req.Any && p.name.unique():
		case a.Err != nil:
			return translate(a.Err, "READ", path)
		case !seen && !p.name.unique():
			return fmt.Errorf("%w: %s may be another entry of that name by now, because this session has not read it: "+
				"read the queue again", driver.ErrRefused, path)
		case !p.req.Any && a.Stat.EphemeralOwner != l.s.conn.Owner():
			return fmt.Errorf("%w: %s is the entry of another session", driver.ErrRefused, path)
		}
		return nil
	})
	return b.run(ctx, l.s, true)
}

// next returns the deletion of the entries that are not known to be gone. The release notice is
// in front of the deletion: a watch fires once, with the change.
func (l *leave) next(context.Context) (t transaction, err error) {
	for i, p := range l.parts {
		if !p.over {
			if l.notice(p) {
				t = append(t, step{role: toNotice, of: i, req: setData(p.req.Ref.Key, nil, -1)})
			}
			t = append(t, step{role: toDelete, of: i, req: remove(p.req.Ref.Key)})
		}
		for _, path := range p.attached {
			t = append(t, step{role: toClear, of: i, req: remove(path)})
		}
		t = append(t, p.ops.steps(i)...)
	}
	return t, nil
}

func (l *leave) done(zxid int64) {
	for _, p := range l.parts {
		if !p.over {
			p.over, p.left = true, driver.Deleted
		}
		p.ops.done(zxid)
	}
}

// gone is called when an entry is not there. From then on only bound records are changed. Where an
// attempt was not answered, that attempt may have deleted the entry.
func (l *leave) gone(p *leavePart) {
	p.over = true
	p.left = driver.WasGone
	if l.sender.unsure {
		p.left = driver.Unclear
	}
	p.ops.leaveOut(false, true)
}

// refused decides what the next attempt is without: see leave.
func (l *leave) refused(_ context.Context, st step, err error) error {
	p := l.parts[st.of]
	switch {
	case isClassified(err):
		return err
	case (st.role == toDelete || st.role == toNotice) && isMissing(err):
		l.gone(p)
	case st.role == toNotice:
		l.noNotice = true
	case st.role == toClear:
		node := st.req.(*zk.DeleteRequest).Path //nolint:forcetypeassert // transaction
		p.attached = slices.DeleteFunc(p.attached, func(path string) bool { return path == node })
	case st.role == toOp:
		p.refused = append(p.refused, func(ctx context.Context) error { return p.ops.refused(ctx, st, err) })
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
// those whose records must be read first, because a release does not wait for a read. They
// require versions, so they never change what was written meanwhile.
func (l *leave) finish(ctx context.Context, p *leavePart) error {
	p.ops.leaveOut(false, false)
	for _, refused := range p.refused {
		if err := refused(ctx); err != nil {
			return err
		}
	}
	return l.sender.run(ctx, p.ops)
}
