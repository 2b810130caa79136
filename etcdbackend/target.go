package etcdbackend

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// target is what a watch at the server is on. Those who want the same share it.
type target struct {
	of       driver.Aspect
	key, end string
	puts     bool // PUT events are wanted
}

// target is what tells what req asks for.
func (s *leased) target(req driver.WatchRequest) target {
	lay, line := s.b.lay, req.Ref.Line
	switch req.Of {
	case driver.OfLimit:
		return target{of: req.Of, key: lay.limit(line), puts: true}
	case driver.OfLine, driver.OfAdmitted:
		p := lay.prefix(line)
		return target{of: req.Of, key: p, end: string(prefixEnd(p)), puts: req.Of == driver.OfLine}
	case driver.OfEntry:
	}
	if req.Own && !req.Changes {
		key, end := lay.own(line, s.id)
		return target{key: key, end: end}
	}
	return target{key: req.Ref.Key, puts: req.Changes}
}

// ofLine says that nothing of it is ever gone.
func (t target) ofLine() bool { return t.of != driver.OfEntry }

// wantsPrev says that it must be known what was deleted: only its last state
// tells its place, and those behind are many where those ahead are few.
func (t target) wantsPrev() bool { return t.of == driver.OfAdmitted }

// sub is the key that a subscriber of it is found by.
func (t target) sub(req driver.WatchRequest) string {
	if t.ofLine() {
		return ""
	}
	return req.Ref.Key
}

// concerns says whether a change of a line matters to who asked for the part
// before a place. Of what is not known it does.
func concerns(req driver.WatchRequest, ev *mvccpb.Event) bool {
	made := ev.Kv.CreateRevision
	if ev.PrevKv != nil {
		made = ev.PrevKv.CreateRevision
	}
	return req.Of == driver.OfLimit || req.Ref.Place == 0 || made < req.Ref.Place
}

// serverWatch is a watch at the server: on the one entry of somebody else, on
// all own entries of a line, or on something of a line.
type serverWatch struct {
	target

	subs    map[string][]*sub // by key; see target.sub
	id      int64             // at the present stream
	asked   int               // how many progress requests were sent there before it
	live    bool              // the server has it
	rev     int64             // it tells everything after that
	idle    driver.Instant    // since when it has no subs
	ended   map[string]int64  // keys that ended since, with the revision
	changed map[string]change // and those that changed
}

// change is when a key was made, and when it was last written after that.
type change struct{ made, rev int64 }

// reset forgets what the last stream told.
func (w *serverWatch) reset() {
	w.live, w.ended, w.changed = false, nil, nil
}

// each calls f for all subs of a watch. f may take them out.
func (w *serverWatch) each(f func(*sub)) {
	for _, subs := range w.subs {
		for _, x := range subs {
			f(x)
		}
	}
}

// latch keeps what an event means to those who come later to the watch: it will
// not be told again.
func (w *serverWatch) latch(ev *mvccpb.Event) {
	kv := ev.Kv
	key := string(kv.Key)
	switch {
	case w.ofLine():
		w.rev = max(w.rev, kv.ModRevision) // those look after it
	case ev.Type == mvccpb.Event_DELETE:
		if w.ended == nil {
			w.ended = make(map[string]int64, 1)
		}
		w.ended[key] = kv.ModRevision
	case kv.ModRevision > kv.CreateRevision:
		if w.changed == nil {
			w.changed = make(map[string]change, 1)
		}
		w.changed[key] = change{made: kv.CreateRevision, rev: kv.ModRevision}
	}
}

// createRequest is how a watch is asked for. It begins now: an older revision
// would be served from a loop that runs every 100 ms.
func (w *serverWatch) createRequest() *pb.WatchRequest {
	r := &pb.WatchCreateRequest{Key: []byte(w.key), WatchId: w.id, PrevKv: w.wantsPrev()}
	if w.end != "" {
		r.RangeEnd = []byte(w.end)
	}
	if !w.puts {
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}
