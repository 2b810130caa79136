package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Leave implements driver.Session. It works after the end of the session too,
// through another.
func (s *sess) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	left, err := s.leave(ctx, []driver.LeaveRequest{req})
	switch {
	case err != nil:
		return driver.Left{}, fmt.Errorf("zookeeper: leave %q: %w", req.Ref.Line, err)
	case left[0].Gone:
		return driver.Left{}, fmt.Errorf("zookeeper: leave %q: %w", req.Ref.Line, driver.ErrGone)
	}
	return left[0], nil
}

// LeaveAll implements driver.Session.
func (s *sess) LeaveAll(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	left, err := s.leave(ctx, reqs)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: leave %q and others: %w", reqs[0].Ref.Line, err)
	}
	return left, nil
}

// departure deletes entries of one session, all in one transaction.
type departure struct {
	s    *sess // whose they are
	by   *sess // through which they are deleted
	dels []*deletion
}

func (s *sess) leave(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	by, err := s.forCleaning(ctx)
	if err != nil {
		return nil, err
	}
	d := departure{s: s, by: by}
	for _, req := range reqs {
		d.dels = append(d.dels, s.newDeletion(req, by))
	}
	for _, del := range d.dels {
		s.setLeaving(*del, true)
		defer s.setLeaving(*del, false)
	}
	err = d.run(ctx)
	// The library calls back with the events of a connection before it hands out
	// a later reply, so they have been posted by now; and those of the link before
	// have been followed by breakWatches.
	told := err == nil && s.out.flush(ctx)
	left := make([]driver.Left, len(reqs))
	for i, del := range d.dels {
		s.setUnsure(del.req.Ref, del.unsure && !del.over)
		left[i] = driver.Left{Gone: del.gone, Told: told}
		if del.over && !del.gone {
			left[i].Probed, left[i].Alive = !del.req.Probe.Zero(), !del.probe.Zero()
		}
	}
	return left, err
}

// run sends the transaction until it is answered, and without what turns out not
// to be there.
func (d *departure) run(ctx context.Context) error {
	for {
		if d.by == nil { // nothing of the session can be left
			for _, del := range d.dels {
				del.gone, del.over = del.gone || !del.over, true
			}
			return nil
		}
		if err := d.prepare(ctx); err != nil {
			return err
		}
		t := d.transaction()
		if len(t) == 0 {
			return nil
		}
		o, err := d.by.transact(ctx, t, d.doubt)
		if err == nil {
			return d.finish(ctx)
		}
		if err := d.refused(ctx, o.failed, err); err != nil {
			return err
		}
	}
}

// finish takes in that the transaction was done.
func (d *departure) finish(ctx context.Context) error {
	for _, del := range d.dels {
		if del.over {
			continue
		}
		if err := d.s.tidy(ctx, d.by, del); err != nil && !driver.Incurable(err) {
			del.unsure = true // by this departure, whatever comes of the rest
			return err
		}
		d.s.hasLeft(del)
	}
	return nil
}

// prepare finds out what hangs on the entries.
func (d *departure) prepare(ctx context.Context) error {
	for _, del := range d.dels {
		if del.over || del.prepared {
			continue
		}
		if err := d.s.hanging(ctx, d.by, del); err != nil && !driver.Incurable(err) {
			return err
		}
		del.prepared = true
	}
	return nil
}

func (d *departure) transaction() (t transaction) {
	for i, del := range d.dels {
		if !del.over {
			t = append(t, del.steps(i)...)
		}
	}
	return t
}

// doubt notes that a transaction was not answered: then the entries may have gone
// by that.
func (d *departure) doubt() {
	for _, del := range d.dels {
		del.unsure = del.unsure || !del.over
	}
}

// refused takes in why the transaction was not done. Nil means that the next may
// be.
func (d *departure) refused(ctx context.Context, failed step, err error) error {
	if errors.Is(err, driver.ErrSessionOver) {
		d.leaveNoWord()
		d.by, err = d.s.forCleaning(ctx)
		return err
	}
	if outcomeOf(err) != refused {
		return translate(err, "DELETE", d.dels[0].dir)
	}
	del := d.dels[failed.of]
	missing := errors.Is(err, zk.ErrNoNode)
	// Only the delete of the entry is needed. A server may refuse anything else for
	// reasons that nobody here knows, so the transaction is sent again without it.
	switch failed.role {
	case toDelete, toLeave:
		switch {
		case missing && del.becomes != "": // a reader has taken its place, perhaps
			del.key, del.becomes, del.held = del.becomes, "", false
			return nil
		case missing:
			del.gone = !del.unsure
			return d.sweep(ctx, del)
		case failed.role == toLeave:
			d.leaveNoWord()
			return nil
		}
	case toMark:
		d.leaveNoWord()
		return nil
	case toProbe:
		del.probe = driver.Ref{} // it is dead, or the server does not say
		return nil
	case toClear:
		if path, ok := failed.op.(*zk.DeleteRequest); ok {
			d.s.keeps(del, path, err)
			return nil
		}
	case toCreate, toCount, toLimit, toTell, toEnter, toChange:
	}
	return translate(err, "DELETE", del.dir)
}

// leaveNoWord leaves the words out: the waiters behind read their lines. What refuses
// one word, a quota, refuses those of all entries, so they are not tried in turn.
func (d *departure) leaveNoWord() {
	for _, del := range d.dels {
		del.held = false
	}
}

// keeps takes one node out of what is deleted with an entry, because it was not
// there, or is another one, or has something below it, or may not be deleted. The
// log gets to know the last: an ephemeral node goes with the session, but a name
// that stays in the ledger makes the next hold believe that this one died. The
// record of a grant means nothing without its entry, so only a debug line names it.
func (s *sess) keeps(del *deletion, path *zk.DeleteRequest, err error) {
	del.hangs = slices.DeleteFunc(del.hangs, func(h *zk.DeleteRequest) bool { return h.Path == path.Path })
	switch {
	case errors.Is(err, zk.ErrNoNode) && path.Version == -1:
		del.late = append(del.late, path)
	case !isElse(err):
		log := s.cfg.Logger.Warn
		if dir, _ := split(path.Path); dir == s.b.lay.grants(del.req.Ref.Line) {
			log = s.cfg.Logger.Debug
		}
		log("zookeeper: cannot delete what belongs to an entry that is released; released it without",
			"name", del.req.Ref.Line, "path", path.Path, "err", err)
	}
}

// sweep deletes what hung on an entry that has gone without it. Its name stays in
// the ledger: it was not struck out.
func (d *departure) sweep(ctx context.Context, del *deletion) error {
	for _, h := range del.hangs {
		if h.Version != -1 {
			continue
		}
		if err := d.by.clear(ctx, h); err != nil && !driver.Incurable(err) {
			return err
		}
	}
	d.s.hasLeft(del)
	return nil
}

// isElse says that what was to be deleted is not there, or not what it was: of what
// hangs on an entry nothing has children.
func isElse(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty)
}

// clear deletes a node; it is no error if it is not there, or another one.
func (s *sess) clear(ctx context.Context, h *zk.DeleteRequest) error {
	_, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(h.Path, h.Version) })
	if err != nil && !isElse(err) {
		dir, _ := split(h.Path)
		return translate(err, "DELETE", dir)
	}
	return nil
}

// hasLeft takes in that an entry is no more.
func (s *sess) hasLeft(del *deletion) {
	if del.over {
		return
	}
	del.over = true
	if n, ok := refNode(del.req.Ref); ok && n.guid != "" {
		s.forgetNotes(mark{del.req.Ref.Line, n.guid})
	}
	if del.held && !del.sealed && !del.gone {
		_, name := split(del.key)
		s.remember(del.dir, markOf(name))
	}
}

// deletion is what becomes of one entry in a departure.
type deletion struct {
	req      driver.LeaveRequest
	dir      string
	key      string // its path ...
	becomes  string // ... and the one that it has if an unanswered Share was done; "" if none was made
	probe    driver.Ref
	held     bool // leave word, in the entry itself if it is sealed
	sealed   bool
	hangs    []*zk.DeleteRequest
	late     []*zk.DeleteRequest // what did not hang on it yet, and may have come before it went
	claims   bool                // a number may have come so ...
	enters   bool                // ... or its name into the ledger
	prepared bool                // hangs is known
	unsure   bool                // a delete was not answered
	over     bool                // it is no more ...
	gone     bool                // ... and was not when this departure began
}

func (s *sess) newDeletion(req driver.LeaveRequest, by *sess) *deletion {
	n, ok := refNode(req.Ref)
	if !ok { // no entry has this name and another place
		return &deletion{req: req, over: true, gone: true}
	}
	return &deletion{
		req: req, key: req.Ref.Key, probe: req.Probe, sealed: n.sealed, dir: s.b.lay.dir(req.Ref.Line),
		// Who is probed stands right behind, and is told by the answer.
		held:   req.Held && req.Probe.Zero() && by == s && n.mode == driver.Exclusive,
		unsure: s.isUnsure(req.Ref),
	}
}

// steps are the requests for one entry: the delete, with the word before or
// behind it, what hangs on it, and the probe. If the entry is not there, the
// first fails.
func (d *deletion) steps(of int) transaction {
	t := transaction{{toDelete, of, &zk.DeleteRequest{Path: d.key, Version: -1}}}
	switch {
	case d.held && d.sealed:
		t = transaction{{toLeave, of, &zk.SetDataRequest{Path: d.key, Data: []byte{}, Version: -1}}, t[0]}
	case d.held:
		_, name := split(d.key)
		t = append(t, step{toMark, of, &zk.SetDataRequest{Path: d.dir, Data: []byte(markOf(name)), Version: -1}})
	}
	for _, h := range d.hangs {
		t = append(t, step{toClear, of, h})
	}
	if !d.probe.Zero() {
		t = append(t, step{toProbe, of, &zk.CheckVersionRequest{Path: d.probe.Key, Version: -1}})
	}
	return t
}

// isUnsure says that an earlier delete of the entry was not answered.
func (s *sess) isUnsure(ref driver.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure[ref]
}

func (s *sess) setUnsure(ref driver.Ref, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unsure {
		s.unsure[ref] = true
	} else {
		delete(s.unsure, ref)
	}
}

// setLeaving notes that an entry is being deleted by a transaction that writes
// it first, which its own watch is told of.
func (s *sess) setLeaving(d deletion, leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leaving && d.held && d.sealed {
		s.leaving[d.req.Ref.Key] = true
	} else {
		delete(s.leaving, d.req.Ref.Key)
	}
	if d.held && leaving {
		delete(s.doubts, d.dir) // what the hold rested on is of no interest any more
	}
}
