package zkbackend

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// nodeWatch is one watch: on the node of an entry, or on the children of a folder. A watch at the
// server fires once, so after every notice it is made anew, by a read of the node. For an entry
// that read decides what has happened. The read is never ExistsW: on a node that is gone, that
// leaves a watch at the server for ever.
//
// All events are reported in callbacks of conn.Session, one at a time, in the order of the
// server's answers and events.
type nodeWatch struct {
	s      *zkSession
	kind   conn.WatchKind
	path   string
	notice func(conn.Notice) // ofEntry or ofFolder
	f      func(driver.Event)
	armed  bool // Armed was reported, and Lost was not since

	// Of a watch on an entry.
	queue   string
	name    entryName
	owner   int64 // of the node, as it was read last
	czxid   int64 // of the node, as it was read last; 0 before the first read
	written bool  // the node was written, and is being read again

	mu       sync.Mutex
	canceled bool
	stop     func() // ends the watch at the server, or its read
}

// neverThere makes, from the path of an entry, one of a node that never exists: entries are
// ephemeral and have no children.
const neverThere = "/over"

// startWatch is Watch.
func startWatch(s *zkSession, t driver.Target, f func(driver.Event)) (cancel func()) {
	lay := s.b.lay
	w := &nodeWatch{s: s, kind: conn.WatchChildren, f: f}
	w.notice = w.ofFolder
	switch t.Kind {
	case driver.OfEntry:
		n, ok := nameOf(t.Ref)
		w.kind, w.notice, w.path, w.queue, w.name = conn.WatchData, w.ofEntry, t.Ref.Key, t.Ref.Queue, n
		if !ok {
			w.path += neverThere // no entry has this key and this place
		}
	case driver.OfHolders:
		w.path = lay.holders(t.Queue)
	case driver.OfRecord:
		w.path = lay.records(t.Queue)
	case driver.OfQueue:
		w.path = lay.folder(t.Queue)
	}
	w.arm()
	return func() {
		w.mu.Lock()
		w.canceled = true
		stop := w.stop
		w.mu.Unlock()
		stop()
	}
}

// arm makes the watch at the server. A read that begins after this call shows all that happened
// before the watch was there: see conn.Session.Watch.
func (w *nodeWatch) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.canceled {
		return
	}
	w.stop = w.s.conn.Watch(w.kind, w.path, func(n conn.Notice) {
		if n.Kind == conn.Lost {
			w.lost()
			w.arm()
			return
		}
		w.notice(n)
	})
}

// report calls the callback, unless the watch was canceled.
func (w *nodeWatch) report(e driver.Event) {
	w.mu.Lock()
	canceled := w.canceled
	w.canceled = canceled || e.Kind == driver.Gone
	w.mu.Unlock()
	if !canceled {
		w.armed = e.Kind != driver.Lost
		w.f(e)
	}
}

// lost reports that events may be missing.
func (w *nodeWatch) lost() {
	if w.armed {
		w.report(driver.Event{Kind: driver.Lost})
	}
}

// present takes in that what is watched was read, and is watched.
func (w *nodeWatch) present(m driver.Marks) {
	kind := driver.Changed
	if !w.armed {
		kind = driver.Armed
	}
	w.report(driver.Event{Kind: kind, Marks: m})
}

// watchRefused takes in that the service refuses a watch.
func (w *nodeWatch) watchRefused(err error) {
	if !errors.Is(err, driver.ErrSessionOver) {
		w.s.cfg.Logger.Warn("zookeeper: cannot watch", "path", w.path, "err", err)
	}
}

// ofFolder is called with the notices of a folder.
func (w *nodeWatch) ofFolder(n conn.Notice) {
	switch {
	case n.Kind == conn.Fired:
		w.arm() // before the report, so that a read that this causes misses nothing
		w.present(0)
	case n.Kind == conn.Armed && !w.armed:
		w.present(0)
	case n.Kind == conn.Refused && isMissing(n.Answer.Err):
		// The servers have removed the empty folder. The watch needs one.
		w.lost()
		w.s.conn.Go(func(ctx context.Context) {
			if _, err := w.s.folders.ensure(ctx, w.path); err != nil {
				w.watchRefused(err)
				return
			}
			w.arm()
		})
	case n.Kind == conn.Refused:
		w.watchRefused(n.Answer.Err)
	}
}

// ofEntry is called with the notices of an entry.
func (w *nodeWatch) ofEntry(n conn.Notice) {
	switch {
	case n.Kind == conn.Armed && w.kind == conn.WatchData:
		w.entryRead(n.Answer)
	case n.Kind == conn.Armed && !slices.Contains(n.Answer.Children, w.name.text):
		w.gone(false)
	case n.Kind == conn.Armed && !w.armed:
		w.present(0)
	case n.Kind == conn.Armed:
	case n.Kind == conn.Refused && isMissing(n.Answer.Err):
		w.gone(w.wasFirst())
	case n.Kind == conn.Refused && errors.Is(n.Answer.Err, zk.ErrNoAuth) && w.kind == conn.WatchData:
		// The session may not read the entry. Servers without CVE-2024-23944 do not report the
		// deletion of a node to clients that may not read it. So the watch goes on the folder.
		w.kind = conn.WatchChildren
		w.path, _ = split(w.path)
		w.arm()
	case n.Kind == conn.Refused:
		w.watchRefused(n.Answer.Err)
	case n.Event == zk.EventNodeDeleted && !w.name.downgrades():
		w.gone(false)
	case n.Event == zk.EventNodeDataChanged && w.isRelease():
		w.gone(true)
	default:
		w.written = n.Event == zk.EventNodeDataChanged
		if w.own() != nil {
			// Whether it is there is known when it has been read. An entry ahead can end before that,
			// and a waiter that took its own watch for armed would hold.
			w.lost()
		}
		w.arm()
	}
}

// own returns what is watched as an entry of this session, nil if it is one of another.
func (w *nodeWatch) own() *ownEntry { return w.s.own.of(ownKey{w.queue, w.name.guid}) }

// entryRead is called when the node was read, and is watched.
func (w *nodeWatch) entryRead(a conn.Answer) {
	if w.czxid != 0 && (a.Stat.EphemeralOwner != w.owner || a.Stat.Czxid < w.czxid) {
		w.gone(false) // another client has made a new node with the same name
		return
	}
	w.owner, w.czxid, w.written = a.Stat.EphemeralOwner, a.Stat.Czxid, false
	w.s.own.onRead(w.queue, w.name, a.Stat)
	_, marks, _ := decodeEntry(w.name, a.Data, a.Stat.Version)
	w.present(marks)
}

// gone reports that the entry is gone. If another client has deleted an own entry, its node among
// the holders is deleted too, because waiters watch that.
func (w *nodeWatch) gone(first bool) {
	if own := w.own(); own != nil && own.holder.Load() && !own.leaving.Load() {
		holder := w.s.b.lay.holders(w.queue) + "/" + w.name.guid
		w.s.conn.Go(func(ctx context.Context) { _, _ = w.s.conn.Repeat(ctx, conn.Multi(remove(holder))) })
	}
	w.report(driver.Event{Kind: driver.Gone, First: first})
}
