package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// update is one call of Update. What it does with the entry depends on the request:
//
//	request                  steps
//	a detail, records        toCheck: require the entry
//	another value            toChange: write the entry, at the version that the session knows; toTouch
//	the mark Admitted        toChange: write the entry; toTouch; toHold: make the holder's node
//	the mark Shared          toChange: delete the entry; toRemake: make it anew, and write it
//
// The first step of each fails if the entry is not there, so nothing is done without it. The detail and
// the records follow.
//
// A writer becomes a reader by a transaction that deletes its node and makes it anew, with the
// same path and owner, so that it keeps its place. No read comes between. A watch of the node
// reports that it was deleted, and for a writer this means that the watch must read the node; a
// change would mean that the writer was released: see seal.go. (Tested on 3.8 and 3.9.)
//
// The transaction then writes the node once, so a condition on its version distinguishes the
// writer from the reader: see Guard. The data has the token, because the czxid is another now.
type update struct {
	s      *zkSession
	sender sender
	req    driver.UpdateRequest
	name   entryName
	own    *ownEntry // nil if only records are changed
	ops    *opSet

	// What the next attempts are without: the detail and the notice to watches of the queue,
	// if a server refuses them, and the holder's node, if it exists.
	noDetail, noTouch, noHolder bool
}

// errLatch: Curator's LeaderLatch watches the entry before its own once. If that watch reports a
// change, it does not watch again (LeaderLatch.checkLeadership of 5.4, tested).
var errLatch = fmt.Errorf("%w: a value there cannot be changed, because Curator's candidates would wait for ever", driver.ErrRefused)

func newUpdate(s *zkSession, req driver.UpdateRequest) *update {
	u := &update{s: s, sender: sender{conn: s.conn}, req: req}
	u.ops = newOps(s, &u.sender, req.Queue, req.Ops)
	return u
}

// do is Update. What an unanswered attempt may have left is in the entry for the calls that come
// later: a detail that may exist, and doubt about the entry.
func (u *update) do(ctx context.Context) ([]driver.Result, error) {
	if err := u.check(); err != nil {
		return u.ops.results(), err
	}
	err := u.sender.run(ctx, u)
	if u.own != nil && u.req.Detail != nil && u.sender.unsure {
		u.own.detail = true // perhaps
	}
	if err != nil && u.own != nil && u.writesEntry() {
		u.own.doubt = u.own.doubt || u.sender.unsure
		err = driver.Outcome(err, u.own.doubt) // an earlier Update may still write the entry
	}
	return u.ops.results(), err
}

// writesEntry reports whether the entry itself is written. Marks that it has already are not
// written again.
func (u *update) writesEntry() bool {
	return u.req.Data != nil || u.adds(driver.MarkShared|driver.MarkAdmitted)
}

// adds reports whether the request adds one of these marks.
func (u *update) adds(m driver.Marks) bool { return u.req.Marks&m&^u.own.marks != 0 }

// check finds the entry, and returns why it cannot be changed, or nil.
func (u *update) check() error {
	r := &u.req
	for _, op := range r.Ops {
		if op.Bound && u.s.cfg.Observer {
			return fmt.Errorf("%w: an Observer has no bound records", driver.ErrRefused)
		}
	}
	if r.Entry.Zero() {
		if r.Marks != 0 || r.Data != nil || r.Detail != nil {
			return fmt.Errorf("%w: a change of an entry that is not named", driver.ErrRefused)
		}
		return nil
	}
	n, ok := nameOf(r.Entry)
	if ok {
		u.name, u.own = n, u.s.own.of(ownKey{r.Queue, n.guid})
	}
	switch {
	case u.own == nil:
		return driver.ErrGone // or of another session
	case r.Marks.Has(driver.MarkShared) && !n.downgrades():
		return fmt.Errorf("%w: %q is no writer", driver.ErrRefused, n.text)
	case r.Marks.Has(driver.MarkAdmitted) && (n.mode != driver.Weighted || n.valued):
		return fmt.Errorf("%w: %q is no request for permits", driver.ErrRefused, n.text)
	case r.Data != nil && !n.valued:
		return fmt.Errorf("%w: %q was made without a value", driver.ErrRefused, n.text)
	case r.Data != nil && n.marker == markLatch:
		return fmt.Errorf("%w: %q", errLatch, n.text)
	case len(r.Data) > maxData:
		return tooLong(len(r.Data))
	}
	return nil
}

// next returns the change of the entry and of the records: see update.
func (u *update) next(ctx context.Context) (transaction, error) {
	if u.own == nil {
		return u.ops.next(ctx)
	}
	if err := u.ops.prepare(ctx); err != nil {
		return nil, err
	}
	t := u.entrySteps()
	if u.req.Detail != nil && !u.noDetail {
		t = append(t, u.detailStep())
	}
	return append(t, u.ops.steps(0)...), nil
}

// entrySteps returns the change of the entry, or the condition that it is there.
func (u *update) entrySteps() (t transaction) {
	s, path := u.s, u.req.Entry.Key
	switch {
	case u.adds(driver.MarkShared):
		data := encodeShared(u.own.data, u.own.token)
		return transaction{
			{role: toChange, req: remove(path)}, // first, so that the watch reports no change: that is a release
			{role: toRemake, req: create(path, data, zk.FlagEphemeral, s.entryACL)},
			{role: toRemake, req: setData(path, data, -1)},
		}
	case u.req.Data != nil:
		t = transaction{{role: toChange, req: setData(path, u.req.Data, u.own.version)}}
	case u.adds(driver.MarkAdmitted):
		t = transaction{{role: toChange, req: setData(path, encodeAdmitted(u.own.data), -1)}}
	default:
		return transaction{{role: toCheck, req: exists(path)}}
	}
	if !u.noTouch {
		t = append(t, touching(s.b.lay.folder(u.req.Queue), s.acl)...)
	}
	if u.adds(driver.MarkAdmitted) && !u.noHolder {
		holder := s.b.lay.holders(u.req.Queue) + "/" + u.name.guid
		u.own.holder.Store(true) // before the node can exist
		t = append(t, step{role: toHold, req: create(holder, nil, zk.FlagEphemeral, s.acl)})
	}
	return t
}

// detailStep writes the node of the detail, or makes it if the session knows of none.
//
// Not handled: an older Update that is carried out late overwrites a newer detail. A detail is for
// people only, and the next Update puts it right.
func (u *update) detailStep() step {
	path := u.s.b.lay.details(u.req.Queue) + "/" + u.name.guid
	if u.own.detail {
		return step{role: toDetail, req: setData(path, u.req.Detail, -1)}
	}
	return step{role: toDetail, req: create(path, u.req.Detail, zk.FlagEphemeral, u.s.entryACL)}
}

func (u *update) done(zxid int64) {
	u.ops.done(zxid)
	if u.own == nil {
		return
	}
	u.own.doubt = u.own.doubt && !u.writesEntry()
	u.own.marks |= u.req.Marks
	if u.req.Data != nil {
		u.own.version++
	}
	if u.req.Detail != nil && !u.noDetail {
		u.own.detail = true
	}
}

// refused decides about the step for which a server has refused the transaction. Nil means that
// another attempt may be carried out. The first line that fits counts:
//
//	step                error        what it means                                  then
//	none                classified   the transaction was not sent                   the error
//	toOp                any                                                         opSet.refused
//	toCheck, toChange   NoNode       the entry is not there                         gone
//	toChange            BadVersion   an Update without an answer has written the    read the version, again
//	                                 value
//	toTouch             any          watches of the queue are not notified          without, again
//	toHold              NoNode       the folder of holders is not there             make it, again
//	toHold              NodeExists   an attempt that was given up has made the      without, again
//	                                 node, or another client. The second only
//	                                 delays others: that node does not end with
//	                                 the entry
//	toDetail            any                                                         detailRefused
//	another             any          a permission, or a quota                       the error
func (u *update) refused(ctx context.Context, st step, err error) error {
	lay, missing := u.s.b.lay, isMissing(err)
	switch {
	case isClassified(err):
		return err
	case st.role == toOp:
		return u.ops.refused(ctx, st, err)
	case (st.role == toCheck || st.role == toChange) && missing:
		return u.gone()
	case st.role == toChange && errors.Is(err, zk.ErrBadVersion):
		return u.readVersion(ctx)
	case st.role == toTouch:
		u.noTouch = true
		return nil
	case st.role == toHold && missing:
		_, err = u.s.folders.ensure(ctx, lay.holders(u.req.Queue))
		return err
	case st.role == toHold && errors.Is(err, zk.ErrNodeExists):
		u.noHolder = true
		return nil
	case st.role == toDetail:
		return u.detailRefused(ctx, st, err)
	case st.role == toHold:
		return translate(err, "CREATE", lay.holders(u.req.Queue))
	case st.role == toRemake:
		return translate(err, "CREATE", lay.folder(u.req.Queue))
	}
	return translate(err, "WRITE", u.req.Entry.Key)
}

// gone returns the error of an entry that is not there. An earlier attempt may have been carried
// out before the entry went, and then it has changed records.
func (u *update) gone() error {
	if u.sender.unsure && len(u.req.Ops) > 0 {
		return fmt.Errorf("%w: an attempt was not answered, and now the entry is gone", driver.ErrUnavailable)
	}
	return driver.ErrGone
}

// readVersion reads how often the value was written. The next write requires that, so an older write
// that arrives later is refused. After an error nothing is known, and the version stays as it was.
func (u *update) readVersion(ctx context.Context) error {
	path := u.req.Entry.Key
	var b batch
	b.add(conn.Exists(path), func(a conn.Answer) error {
		switch {
		case isMissing(a.Err):
			return u.gone()
		case a.Err != nil:
			return translate(a.Err, "READ", path)
		}
		u.own.version = a.Stat.Version
		return nil
	})
	return b.run(ctx, u.s, true)
}

// detailRefused decides about a detail that a server has refused.
//
//	step    error        what it means                                        the next attempt
//	make    NodeExists   an attempt without an answer has made the node       writes it
//	make    NoNode       the folder is not there                              makes it, in the folder made now
//	write   NoNode       the node is not there                                makes it
//	either  another      a quota, or a permission that is missing             is without the detail
func (u *update) detailRefused(ctx context.Context, st step, err error) error {
	_, makes := st.req.(*zk.CreateRequest)
	switch {
	case makes && errors.Is(err, zk.ErrNodeExists):
		u.own.detail = true
		return nil
	case isMissing(err) && !makes:
		u.own.detail = false
		return nil
	case isMissing(err):
		_, err = u.s.folders.ensure(ctx, u.s.b.lay.details(u.req.Queue))
		if !driver.Incurable(err) {
			return err
		}
	}
	u.noDetail = true
	u.s.cfg.Logger.Debug("zookeeper: cannot write what describes an entry", "name", u.req.Queue, "err", err)
	return nil
}
