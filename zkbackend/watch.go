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
// What the contract calls the holders, a record or a queue is the children of a folder here, because
// each of them comes and goes with a node. So such a watch also reports changes of other records.
//
// All events are reported in callbacks of conn.Session, one at a time, in the order of the
// server's answers and events. The fields up to mu are used only there, or never changed.
type nodeWatch struct {
	s      *zkSession
	notice func(conn.Notice) // ofEntry or ofFolder
	f      func(driver.Event)

	// kind and path are what the server watches. They change once, where the session may not read the
	// entry: then its folder is watched instead.
	kind conn.WatchKind
	path string

	// armed: Armed was reported, and Lost was not since.
	armed bool

	// queue and name are those of the entry.
	queue string
	name  entryName

	// owner and czxid are those of the entry's node, as it was read last. czxid is 0 before the first
	// read. It rises when a downgrade makes the node anew; another owner, or a lower czxid, is another
	// entry with the same name.
	owner int64
	czxid int64

	// written: the last event was a change of the node, which is being read again. A node that is gone
	// by then was released: see wasFirst.
	written bool

	mu sync.Mutex

	// canceled: no event is reported any more, because the caller has canceled the watch, or Gone was
	// reported. Never reset.
	canceled bool

	// stop ends the watch at the server, or its read. Each arm makes another one.
	stop func()
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
// before the watch was there: see conn.Session.Watch. When a connection is lost, the next one reads
// the node again, and never repeats the watch without a read: see seal.go.
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

// report calls the callback, unless the watch was canceled. Gone is the last event.
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

// lost reports that events may be missing, once.
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

// watchRefused takes in that the service refuses a watch. It reports no event: the engine reads the
// queue on a timer too.
func (w *nodeWatch) watchRefused(err error) {
	if !errors.Is(err, driver.ErrSessionOver) {
		w.s.cfg.Logger.Warn("zookeeper: cannot watch", "path", w.path, "err", err)
	}
}

// ofFolder is called with the notices of a folder.
//
//	notice           what follows
//	Fired            made anew, then Changed: so a read that this causes misses nothing
//	Armed            Armed, if it was not reported
//	Refused, NoNode  the servers have removed the empty folder. A watch needs one: Lost, and the folder is
//	                 made. What came and went meanwhile is found by the read that follows Armed
//	Refused          logged
func (w *nodeWatch) ofFolder(n conn.Notice) {
	switch {
	case n.Kind == conn.Fired:
		w.arm()
		w.present(0)
	case n.Kind == conn.Armed && !w.armed:
		w.present(0)
	case n.Kind == conn.Refused && isMissing(n.Answer.Err):
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
	case n.Kind == conn.Fired:
		w.fired(n.Event)
	case n.Kind == conn.Refused:
		w.notRead(n.Answer.Err)
	case w.kind == conn.WatchChildren:
		w.folderRead(n.Answer.Children)
	default:
		w.entryRead(n.Answer)
	}
}

// fired decides what an event at the server means for the entry. The first line that fits counts:
//
//	event     the entry                                         what follows
//	deleted   no writer of ours                                 Gone
//	changed   sealed, no candidate, of another session          Gone, and it was first: see seal.go
//	any       another: a writer that became a reader, another   the node is read again
//	          value, a mark, or the folder that is watched
//
// Of an own entry, Lost comes first: whether it is there is known when it has been read. An entry ahead
// can end before that, and a waiter that took its own watch for armed would hold.
func (w *nodeWatch) fired(event zk.EventType) {
	switch {
	case event == zk.EventNodeDeleted && !w.name.downgrades():
		w.gone(false)
		return
	case event == zk.EventNodeDataChanged && w.isRelease():
		w.gone(true)
		return
	}
	w.written = event == zk.EventNodeDataChanged
	if w.own() != nil {
		w.lost()
	}
	w.arm()
}

// notRead decides what it means that the node could not be read.
//
// Where the session may not read the entry, its folder is watched: servers without CVE-2024-23944 do
// not report the deletion of a node to clients that may not read it.
func (w *nodeWatch) notRead(err error) {
	switch {
	case isMissing(err):
		w.gone(w.wasFirst())
	case errors.Is(err, zk.ErrNoAuth) && w.kind == conn.WatchData:
		w.kind = conn.WatchChildren
		w.path, _ = split(w.path)
		w.arm()
	default:
		w.watchRefused(err)
	}
}

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

// folderRead is called when the folder of an entry was listed instead, and is watched. A change of it
// is usually that of another entry, so only Armed is reported.
func (w *nodeWatch) folderRead(children []string) {
	switch {
	case !slices.Contains(children, w.name.text):
		w.gone(false)
	case !w.armed:
		w.present(0)
	}
}

// own returns what is watched as an entry of this session, nil if it is one of another.
func (w *nodeWatch) own() *ownEntry { return w.s.own.of(ownKey{w.queue, w.name.guid}) }

// gone reports that the entry is gone. If another client has deleted an own entry, its node among
// the holders is deleted too, because waiters watch that.
func (w *nodeWatch) gone(first bool) {
	own := w.own()
	if own != nil && own.holder.Load() && !own.leaving.Load() {
		holder := w.s.b.lay.holders(w.queue) + "/" + w.name.guid
		w.s.conn.Go(func(ctx context.Context) { _, _ = w.s.conn.Repeat(ctx, conn.Multi(remove(holder))) })
	}
	w.report(driver.Event{Kind: driver.Gone, First: first})
}
