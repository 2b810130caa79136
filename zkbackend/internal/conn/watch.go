package conn

import (
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// WatchKind is what a watch is on.
type WatchKind int

const (
	// WatchData reads the node's data. A write to the node and its deletion are reported.
	WatchData WatchKind = iota

	// WatchChildren lists the node's children. A child that is made or deleted, and the node's own deletion, are
	// reported.
	WatchChildren
)

// Notice is what a watch reports.
type Notice struct {
	Kind   NoticeKind
	Answer Answer       // of Armed and Refused
	Event  zk.EventType // of Fired: zk.EventNodeDataChanged, EventNodeChildrenChanged or EventNodeDeleted
}

// NoticeKind is the kind of a Notice.
type NoticeKind int

const (
	// Armed means that the node was read, see Notice.Answer, and the next change of it will be reported.
	Armed NoticeKind = iota + 1

	// Refused means that the node was not read: it is not there (zk.ErrNoNode in Notice.Answer.Err), or a
	// permission is missing (zk.ErrNoAuth), or the session is over. Nothing is watched. It is the last notice.
	Refused

	// Fired means that the node has changed since it was read. It is the last notice.
	Fired

	// Lost means that the connection was lost after Armed, so the node may have changed. It is the last notice.
	Lost
)

// watch is one call of Session.Watch. Its notices are one of these rows:
//
//	Armed, Fired     the node was read, and has changed since
//	Armed, Lost      the node was read, and the connection was lost
//	Refused          the node was not read
//
// A connection that is lost before the node was read is not reported: the read is sent again.
type watch struct {
	kind   WatchKind
	path   string
	f      func(Notice)
	flight *flight // the read, which leaves the watch at the server

	// The rest is guarded by watches.mu.

	// armed: the node was read on the connection that the session has. Never reset: a watch that loses its
	// connection ends.
	armed bool

	// fired is the event that came before the watch was armed; 0 if none has. It belongs to the connection
	// that the session has.
	fired zk.EventType

	// canceled: no callback begins any more. Never reset.
	canceled bool
}

// watches has the watches of a session. The library does not know of them: see Request.watching.
type watches struct {
	out  *outbox
	over <-chan struct{} // closed when the session is over; then no callback begins any more

	mu sync.Mutex

	// all has each watch by its path, from add to its last notice. Several watches of one path share one
	// watch at the server, and its event reaches all of them that are armed.
	all map[string][]*watch

	// calling is held while a callback runs, so that they run one at a time. It is taken before mu.
	calling sync.Mutex
}

// add reads a node and watches it.
func (ws *watches) add(kind WatchKind, path string, f func(Notice)) (cancel func()) {
	w := &watch{kind: kind, path: path, f: f}
	req := Get(path)
	if kind == WatchChildren {
		req = Children(path)
	}
	w.flight = &flight{Request: req.watching(), again: true}
	w.flight.answered = func(a Answer, err error) { ws.answered(w, a, err) }
	ws.mu.Lock()
	ws.all[path] = append(ws.all[path], w)
	ws.mu.Unlock()
	ws.out.add(w.flight)
	return func() {
		ws.mu.Lock()
		w.canceled = true
		ws.drop(w)
		ws.mu.Unlock()
		_ = ws.out.withdraw(w.flight, errUnneeded)
	}
}

// drop removes watches that have no further notice. The caller holds ws.mu.
func (ws *watches) drop(all ...*watch) {
	for _, w := range all {
		rest := slices.DeleteFunc(ws.all[w.path], func(o *watch) bool { return o == w })
		ws.all[w.path] = rest
		if len(rest) == 0 {
			delete(ws.all, w.path)
		}
	}
}

// answered is called with the outcome of the read. The connection reads the next packet when it has returned, so the
// notices come before anything that the server has sent behind the answer.
func (ws *watches) answered(w *watch, a Answer, err error) {
	if err != nil {
		a.Err = err
	}
	ws.mu.Lock()
	fired := w.fired
	w.armed = a.Err == nil
	if !w.armed || fired != 0 {
		ws.drop(w)
	}
	ws.mu.Unlock()
	if !w.armed {
		ws.call(Notice{Kind: Refused, Answer: a}, w)
		return
	}
	ws.call(Notice{Kind: Armed, Answer: a}, w)
	if fired != 0 {
		ws.call(Notice{Kind: Fired, Event: fired}, w)
	}
}

// covers reports whether watches of the kind report an event.
func (k WatchKind) covers(ev zk.EventType) bool {
	return ev == zk.EventNodeDeleted ||
		k == WatchData && ev == zk.EventNodeDataChanged || k == WatchChildren && ev == zk.EventNodeChildrenChanged
}

// event is the library's callback, in its receiving goroutine.
//
// An event that comes before the answer to a read belongs to an older watch of the node on this connection, or
// to the watch of that read: a server may send the event before the answer. It is not known which. So when the
// answer comes, that watch reports Armed and then Fired.
func (ws *watches) event(ev zk.Event) {
	ws.mu.Lock()
	var fired []*watch
	for _, w := range ws.all[ev.Path] {
		switch {
		case !w.kind.covers(ev.Type):
		case w.armed:
			fired = append(fired, w)
		default:
			w.fired = ev.Type
		}
	}
	ws.drop(fired...)
	ws.mu.Unlock()
	ws.call(Notice{Kind: Fired, Event: ev.Type}, fired...)
}

// lost is called when a connection has ended. The outbox sends reads again that were not answered.
func (ws *watches) lost() {
	ws.mu.Lock()
	var lost []*watch
	for _, all := range ws.all {
		for _, w := range all {
			w.fired = 0
			if w.armed {
				lost = append(lost, w)
			}
		}
	}
	ws.drop(lost...)
	ws.mu.Unlock()
	ws.call(Notice{Kind: Lost}, lost...)
}

// call calls the callbacks of watches with a notice, one at a time.
func (ws *watches) call(n Notice, all ...*watch) {
	ws.calling.Lock()
	defer ws.calling.Unlock()
	for _, w := range all {
		ws.mu.Lock()
		silent := w.canceled || isClosed(ws.over)
		ws.mu.Unlock()
		if !silent {
			w.f(n)
		}
	}
}
