package conn

import (
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
)

// WatchKind is what of a node is watched.
type WatchKind int

const (
	// WatchData reads the node's data. Writes to the node and its end are reported.
	WatchData WatchKind = iota

	// WatchChildren lists the node's children. Each that comes or goes, and the node's end, is reported.
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

	// Refused means that the node could not be read, see Notice.Answer.Err: it is not there (zk.ErrNoNode),
	// or a permission is missing (zk.ErrNoAuth). Nothing is watched. It is the last notice.
	Refused

	// Fired means that something has happened to the node since it was read. It is the last notice.
	Fired

	// Lost means that the connection was lost after Armed, so something may have happened. It is the last
	// notice.
	Lost
)

// watch is one call of Session.Watch.
type watch struct {
	kind   WatchKind
	path   string
	f      func(Notice)
	flight *flight

	// Guarded by watches.mu.
	armed    bool
	fired    zk.EventType // an event came before it was armed; 0: none
	canceled bool
}

// watches are those of a session. They need no more than one-shot watches at the server, and the library
// knows nothing of them: see Request.watching.
type watches struct {
	out  *outbox
	over <-chan struct{}

	mu  sync.Mutex
	all map[string][]*watch // by path: those that have not reported their last

	calling sync.Mutex // held while a callback runs
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

// drop forgets watches. The caller holds ws.mu.
func (ws *watches) drop(all ...*watch) {
	for _, w := range all {
		rest := slices.DeleteFunc(ws.all[w.path], func(o *watch) bool { return o == w })
		if ws.all[w.path] = rest; len(rest) == 0 {
			delete(ws.all, w.path)
		}
	}
}

// answered takes in the answer to the read.
func (ws *watches) answered(w *watch, a Answer, err error) {
	if err != nil {
		a.Err = err
	}
	ws.mu.Lock()
	fired := w.fired
	if w.armed = a.Err == nil; !w.armed || fired != 0 {
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

// reports reports whether an event is one for watches of the kind.
func (k WatchKind) reports(ev zk.EventType) bool {
	return ev == zk.EventNodeDeleted ||
		k == WatchData && ev == zk.EventNodeDataChanged || k == WatchChildren && ev == zk.EventNodeChildrenChanged
}

// event is the library's callback. It runs in the receiving goroutine.
//
// An event that comes while a read is on its way belongs to an older watch of the same node on this
// connection, or to the one that the read leaves: a server may send it before the answer. So the watch is
// taken for one that has fired, when its answer comes.
func (ws *watches) event(ev zk.Event) {
	ws.mu.Lock()
	var fired []*watch
	for _, w := range ws.all[ev.Path] {
		switch {
		case !w.kind.reports(ev.Type):
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

// lost takes in that a connection has come to its end. The outbox sends the reads again that were not
// answered.
func (ws *watches) lost() {
	ws.mu.Lock()
	var lost []*watch
	for _, all := range ws.all {
		for _, w := range all {
			if w.fired = 0; w.armed {
				lost = append(lost, w)
			}
		}
	}
	ws.drop(lost...)
	ws.mu.Unlock()
	ws.call(Notice{Kind: Lost}, lost...)
}

// call calls watches back, one at a time.
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
