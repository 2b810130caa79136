package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// serverWatch is a watch at the server: on one entry of another session or its first key,
// on all own entries of a queue, or on a whole range for targets that are no entries. It
// outlives streams: each one asks for it anew.
type serverWatch struct {
	Spec
	whole bool // its subs are on no entry; never changes

	// subs are by the key of their entry, "" if whole. There is no empty slice in it, and no
	// slice is changed once it is in there, because a caller may be iterating over it.
	subs map[string][]*sub

	id      int64          // on the present stream; the next stream gives it another one
	created driver.Instant // when the server was asked for it there

	// live: the server has confirmed it, on the present stream. Then rev counts: every change
	// after this revision is reported.
	live bool
	rev  int64

	// While there are no subs: since when, and how many ends of entries were reported since.
	idle   driver.Instant
	unused int

	// last is the newest change of each key that is known: from events of the present stream,
	// and from answers to writes of this session. It has no key of which there is none.
	last map[string]change
}

// each calls f for all subs that are armed by this watch. That on a first key arms none.
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

// create asks the server for a watch. If no message was due before, one is due from now on.
func (st *stream) create(w *serverWatch) {
	now := st.h.Send.Clock.Now()
	if st.live == 0 && st.awaited == 0 {
		st.received = now
	}
	st.awaited++
	st.h.lastID++
	w.id, w.created = st.h.lastID, now
	st.byID[w.id] = w
	st.push(w.request())
}

// forget cancels a watch at the server. Messages about it that are under way find no watch with
// its id, and are nothing to anyone.
func (st *stream) forget(w *serverWatch) {
	if st.byID[w.id] != w {
		return
	}
	delete(st.byID, w.id)
	if len(st.byID) == 0 {
		st.byID = make(map[int64]*serverWatch)
	}
	if w.live {
		w.live = false
		st.live--
	}
	st.push(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: w.id}}})
}

// push makes the sender send r.
func (st *stream) push(r *pb.WatchRequest) {
	st.out = append(st.out, r)
	select {
	case st.wake <- struct{}{}:
	default:
	}
}
