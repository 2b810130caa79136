package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// serverWatch is a watch at the server: on one entry of another session or its Target.First,
// on all own entries of a queue, or on a whole range for targets that are no entries.
type serverWatch struct {
	Spec
	whole   bool              // its subs are on no entry
	subs    map[string][]*sub // by key of the entry
	id      int64             // on the present stream
	created driver.Instant    // when the server was asked for it there
	live    bool              // the server has confirmed it
	rev     int64             // it reports every change after this revision
	idle    driver.Instant    // since when it has no subs
	unused  int               // how many ends of entries it has reported since then
	last    map[string]change // the newest change of each key that is known
}

// each calls f for all subs that are armed by this watch.
func (w *serverWatch) each(f func(*sub)) {
	if w.Firsts {
		return
	}
	for _, subs := range w.subs {
		for _, x := range subs {
			f(x)
		}
	}
}

// request returns the message that asks the server for the watch. It has no revision, so
// the watch begins now: the server serves one that begins earlier from a loop that runs
// every 100 ms.
func (w *serverWatch) request() *pb.WatchRequest {
	r := &pb.WatchCreateRequest{Key: []byte(w.Key), RangeEnd: []byte(w.End), WatchId: w.id, PrevKv: w.Prev}
	switch {
	case w.Firsts:
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}
	case !w.Puts:
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// create asks the server for a watch.
func (st *stream) create(w *serverWatch) {
	now := st.h.Send.Clock.Now()
	if st.live == 0 && st.awaited == 0 {
		st.received = now
	}
	st.awaited++
	st.h.lastID++
	w.id, w.created = st.h.lastID, now
	st.byID[w.id] = w
	st.queue(w.request())
}

// forget cancels a watch at the server.
func (st *stream) forget(w *serverWatch) {
	if st.byID[w.id] != w {
		return
	}
	if delete(st.byID, w.id); len(st.byID) == 0 {
		st.byID = make(map[int64]*serverWatch)
	}
	if w.live {
		w.live = false
		st.live--
	}
	st.queue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: w.id}}})
}

// queue makes the sender send r.
func (st *stream) queue(r *pb.WatchRequest) {
	st.out = append(st.out, r)
	select {
	case st.wake <- struct{}{}:
	default:
	}
}
