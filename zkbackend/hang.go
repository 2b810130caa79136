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
	known, ok := s.noted(n.guid)
	if !ok || n.guid == "" {
		return nil
	}
	if known.claims {
		slot, err := by.findSlot(ctx, ref)
		if err != nil {
			return err
		}
		known.slot = slot
	}
	if del.req.Clean && known.enters {
		l, err := by.newestLedger(ctx, ref.Line)
		if err != nil {
			return err
		}
		known.entered, known.ledger = l.guid == n.guid, l.version
	}
	s.note(n.guid, func(k *notes) { k.leaving = true })
	del.hangs = known.hangs(s.b.lay, n, ref.Line, del.req.Clean)
	if known.shared && n.mode == driver.Exclusive {
		del.becomes = del.dir + "/" + s.b.lay.reader(n)
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
	if k.bell {
		add(lay.holders(line)+"/"+n.name, -1)
	}
	if k.slot >= 0 {
		add(lay.slots(line)+"/"+strconv.Itoa(k.slot), -1)
	}
	if k.entered && clean {
		add(lay.ledger(line), k.ledger)
	}
	return all
}

// mind has the session watch an entry of its own: if somebody deletes it by hand,
// others wait for what hangs on it.
func (s *sess) mind(ref driver.Ref, n node) {
	first := false
	s.note(n.guid, func(k *notes) { first, k.minded = !k.minded, true })
	if first {
		_ = s.Watch(driver.WatchRequest{Ref: ref, Own: true}, func(driver.Event) {})
	}
}

// orphaned takes in that an own entry has gone by somebody else's hand: then what
// hung on it goes too. The caller holds s.mu.
func (s *sess) orphaned(ref driver.Ref) {
	n, ok := refNode(ref)
	known := s.mine[n.guid]
	if !ok || n.guid == "" || known == nil || known.leaving || known.shared && n.mode == driver.Exclusive {
		return // nothing of interest, or a reader has its place
	}
	hangs := known.hangs(s.b.lay, n, ref.Line, false)
	if len(hangs) == 0 {
		return
	}
	s.goes(func() {
		for _, h := range hangs {
			if s.clear(s.ctx, h.Path) != nil {
				return // it goes with the session, or by Leave
			}
		}
	})
}
