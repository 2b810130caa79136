package zkbackend

import (
	"context"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// hanging finds out what is to be deleted with an entry. It asks only where an
// earlier call was not answered.
func (s *sess) hanging(ctx context.Context, by *sess, del *deletion) error {
	ref := del.req.Ref
	n, _ := refNode(ref)
	known, ok := s.noted(mark{ref.Line, n.guid})
	if !ok || n.guid == "" {
		return nil
	}
	if known.claims && known.slot < 0 {
		slot, err := by.findSlot(ctx, ref)
		if err != nil {
			return err
		}
		known.slot = slot.N
	}
	del.claims, del.enters = known.claims, del.req.Clean && known.enters
	if del.enters {
		l, err := by.newestLedger(ctx, ref.Line)
		if err != nil {
			return err
		}
		known.entered, known.ledger = l.guid == n.guid, l.version
	}
	s.note(mark{ref.Line, n.guid}, func(k *notes) { k.leaving = true })
	del.hangs = known.hangs(s.b.lay, n, ref.Line, del.req.Clean)
	if known.shared && n.mode == driver.Exclusive {
		del.becomes = del.dir + "/" + s.b.lay.reader(n)
	}
	return nil
}

// tidy deletes what came to hang on an entry while that was being deleted: by
// requests of this session that had not been answered, or sent. Once the entry
// has gone they are refused.
func (s *sess) tidy(ctx context.Context, by *sess, del *deletion) error {
	ref := del.req.Ref
	late := del.late
	for del.claims { // a Claim that was carried out late may have taken another number
		slot, err := by.findSlot(ctx, ref)
		if err != nil {
			return err
		}
		if slot.N < 0 {
			break
		}
		err = by.clear(ctx, &zk.DeleteRequest{Path: s.b.lay.slots(ref.Line) + "/" + strconv.Itoa(slot.N), Version: -1})
		if err != nil {
			return err
		}
	}
	if n, _ := refNode(ref); del.enters {
		l, err := by.newestLedger(ctx, ref.Line)
		if err != nil {
			return err
		}
		if l.there && l.guid == n.guid {
			late = append(late, &zk.DeleteRequest{Path: s.b.lay.ledger(ref.Line), Version: l.version})
		}
	}
	for _, h := range late {
		if err := by.clear(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// hangs are the deletes of what hangs on an entry; the one of its name in the
// ledger is the only one that asks for a version.
func (k notes) hangs(lay layout, n node, line string, clean bool) (all []*zk.DeleteRequest) {
	add := func(path string, version int32) {
		all = append(all, &zk.DeleteRequest{Path: path, Version: version})
	}
	if k.valued {
		add(lay.metas(line)+"/"+n.guid, -1)
	}
	for _, bell := range k.bells {
		add(lay.holders(line)+"/"+bell, -1)
	}
	if k.granted != "" {
		add(lay.grants(line)+"/"+k.granted, -1)
	}
	if k.slot >= 0 {
		add(lay.slots(line)+"/"+strconv.Itoa(k.slot), -1)
	}
	if k.entered && clean {
		add(lay.ledger(line), k.ledger)
	}
	return all
}

// orphaned takes in that an own entry has gone by somebody else's hand: then what
// hung on it goes too, and a caller may never ask for the entry again. Its name in
// a ledger stays: it has not given back. The caller holds s.mu.
func (s *sess) orphaned(ref driver.Ref) {
	n, ok := refNode(ref)
	m := mark{ref.Line, n.guid}
	known := s.mine[m]
	if !ok || n.guid == "" || known == nil || known.leaving || known.shared && n.mode == driver.Exclusive {
		return // nothing of interest, or a reader has its place
	}
	hangs := known.hangs(s.b.lay, n, ref.Line, false)
	if len(hangs) == 0 && !known.claims {
		delete(s.mine, m)
		return
	}
	// A Claim that was not answered yet is not carried out any more, but may have
	// been.
	del := &deletion{req: driver.LeaveRequest{Ref: ref}, late: hangs, claims: known.claims}
	s.goes(func() {
		err := s.tidy(s.ctx, s, del)
		if err == nil { // otherwise it goes with the session, or by Leave
			s.forgetNotes(m)
		}
	})
}
