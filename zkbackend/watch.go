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

// nodeWatch is one watch: on the node of an entry, or on the children of a folder. A watch
// at the server fires once, so it is made anew after every notice, by a read of the node.
// For an entry that read decides what has happened. It is never ExistsW: on a node that is
// gone, that leaves a watch at the server for ever.
//
// All events are reported from callbacks of conn.Session, which run one at a time, in the
// order in which the server has sent what they rest on.
type nodeWatch struct {
	s     *zkSession
	kind  conn.WatchKind
	path  string
	f     func(driver.Event)
	armed bool // Armed was reported, and Lost was not since

	// Of an entry, queue and name, and what was read of its node last: its owner, and when
	// it was made, 0 before. written is set while it is read again because it was written.
	queue   string
	name    entryName
	owner   int64
	czxid   int64
	written bool

	mu       sync.Mutex
	canceled bool
	stop     func() // ends the watch that is being made, or stands
}

// neverThere makes a path of an entry one that never exists: entries are ephemeral and
// have no children.
const neverThere = "/over"

// startWatch is Watch.
func startWatch(s *zkSession, t driver.Target, f func(driver.Event)) (cancel func()) {
	lay := s.b.lay
	w := &nodeWatch{s: s, kind: conn.WatchChildren, f: f}
	switch t.Kind {
	case driver.OfEntry:
		n, ok := nameOf(t.Ref)
		w.kind, w.path, w.queue, w.name = conn.WatchData, t.Ref.Key, t.Ref.Queue, n
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
	notice := w.ofFolder
	if t.Kind == driver.OfEntry {
		notice = w.ofEntry
	}
	w.arm(notice)
	return func() {
		w.mu.Lock()
		w.canceled = true
		stop := w.stop
		w.mu.Unlock()
		stop()
	}
}

// arm makes the watch at the server. What is read after this call shows all that happened
// before the watch stood: see conn.Session.Watch.
func (w *nodeWatch) arm(notice func(conn.Notice)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.canceled {
		return
	}
	w.stop = w.s.conn.Watch(w.kind, w.path, func(n conn.Notice) {
		if n.Kind == conn.Lost {
			w.lost()
			w.arm(notice)
			return
		}
		notice(n)
	})
}

// report calls back, unless the watch was canceled.
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

// lost takes in that events may be missing.
func (w *nodeWatch) lost() {
	if w.armed {
		w.report(driver.Event{Kind: driver.Lost})
	}
}

// there takes in that what is watched was read, and is watched.
func (w *nodeWatch) there(m driver.Marks) {
	kind := driver.Changed
	if !w.armed {
		kind = driver.Armed
	}
	w.report(driver.Event{Kind: kind, Marks: m})
}

// cannot takes in that the service refuses a watch.
func (w *nodeWatch) cannot(err error) {
	if !errors.Is(err, driver.ErrSessionOver) {
		w.s.cfg.Logger.Warn("zookeeper: cannot watch", "path", w.path, "err", err)
	}
}

// ofFolder takes in a notice of a folder.
func (w *nodeWatch) ofFolder(n conn.Notice) {
	switch {
	case n.Kind == conn.Fired:
		w.arm(w.ofFolder) // before a reader is told, so that it misses nothing
		w.there(0)
	case n.Kind == conn.Armed && !w.armed:
		w.there(0)
	case n.Kind == conn.Refused && isMissing(n.Answer.Err):
		// The servers remove an empty folder. It is made again as long as it is watched.
		w.lost()
		w.s.conn.Go(func(ctx context.Context) {
			if err := w.s.makeFolder(ctx, w.path); err != nil {
				w.cannot(err)
				return
			}
			w.arm(w.ofFolder)
		})
	case n.Kind == conn.Refused:
		w.cannot(n.Answer.Err)
	}
}

// ofEntry takes in a notice of an entry.
func (w *nodeWatch) ofEntry(n conn.Notice) {
	switch {
	case n.Kind == conn.Armed && w.kind == conn.WatchData:
		w.entryRead(n.Answer)
	case n.Kind == conn.Armed && !slices.Contains(n.Answer.Children, w.name.text):
		w.gone(false)
	case n.Kind == conn.Armed && !w.armed:
		w.there(0)
	case n.Kind == conn.Armed:
	case n.Kind == conn.Refused && isMissing(n.Answer.Err):
		w.gone(w.written && w.name.sealed) // no entry is written that was not first
	case n.Kind == conn.Refused && errors.Is(n.Answer.Err, zk.ErrNoAuth) && w.kind == conn.WatchData:
		// The entry cannot be read. Servers with CVE-2024-23944 mended report its end to
		// nobody who may not read it. So its folder is watched in its stead.
		w.kind = conn.WatchChildren
		w.path, _ = split(w.path)
		w.arm(w.ofEntry)
	case n.Kind == conn.Refused:
		w.cannot(n.Answer.Err)
	case n.Event == zk.EventNodeDeleted && !w.name.downgrades():
		w.gone(false)
	case n.Event == zk.EventNodeDataChanged && w.isRelease():
		w.gone(true)
	default:
		w.written = n.Event == zk.EventNodeDataChanged
		w.arm(w.ofEntry)
	}
}

// isRelease reports whether a change of the entry means that it was released. A candidate
// may have changed its value, and nobody else writes the entries of others. What somebody
// has written into an own entry by force must not look like its end.
func (w *nodeWatch) isRelease() bool {
	return w.name.sealed && !w.name.valued && w.s.own.of(ownKey{w.queue, w.name.guid}) == nil
}

// entryRead takes in that the node was read, and is watched.
func (w *nodeWatch) entryRead(a conn.Answer) {
	if w.czxid != 0 && (a.Stat.EphemeralOwner != w.owner || a.Stat.Czxid < w.czxid) {
		w.gone(false) // another client has made a node with its name
		return
	}
	w.owner, w.czxid, w.written = a.Stat.EphemeralOwner, a.Stat.Czxid, false
	w.s.own.sight(w.queue, w.name, a.Stat)
	_, marks, _ := decodeEntry(w.name, a.Data, a.Stat.Version)
	w.there(marks)
}

// gone takes in that the entry is no more. If another client has deleted an own entry, what
// it has among the holders must go too, for those that watch them.
func (w *nodeWatch) gone(first bool) {
	if own := w.s.own.of(ownKey{w.queue, w.name.guid}); own != nil && own.holder.Load() && !own.leaving.Load() {
		holder := w.s.b.lay.holders(w.queue) + "/" + w.name.guid
		w.s.conn.Go(func(ctx context.Context) { _, _ = w.s.conn.Repeat(ctx, conn.Delete(holder, -1)) })
	}
	w.report(driver.Event{Kind: driver.Gone, First: first})
}
