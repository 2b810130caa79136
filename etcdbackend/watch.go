package etcdbackend

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

// Watch implements driver.Session.
func (s *etcdSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return s.hub.Watch(s.target(t), f)
}

// target returns what to watch at the server. All own entries of a queue share one watch,
// which leaves out writes: this session makes them, and reports them itself.
func (s *etcdSession) target(t driver.Target) watch.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Kind == driver.OfEntry {
		t.Queue = t.Ref.Queue
	}
	q := s.queue(t.Queue)
	w := watch.Target{Queue: t.Queue, Shown: q.floor, Spec: watch.Spec{Key: q.prefix, End: string(prefixEnd(q.prefix)), Puts: true}}
	switch t.Kind {
	case driver.OfRecord:
		w.Spec.Key, w.Spec.End = q.side+t.Record, ""
	case driver.OfHolders:
		w.Spec.Prev, w.Concerns = true, ofHolder
	case driver.OfEntry:
		w.Ref, w.Spec = t.Ref, watch.Spec{Key: t.Ref.Key, Puts: true}
		if m, ok := q.view[t.Ref.Place]; ok {
			w.Known, w.Marks = q.viewed, m
		}
		if o := q.own[t.Ref.Place]; o != nil && o.ref == t.Ref {
			w.Marks |= o.marks
			from := q.prefix + s.ID()
			w.Spec = watch.Spec{Key: from + ".", End: from + "/"} // "/" is the byte after "."
		}
	case driver.OfQueue:
	}
	return w
}

// ofHolder reports whether a change of a queue can be that of an entry with the mark
// Admitted: one is written, or one goes that was written.
func ofHolder(ev *mvccpb.Event) bool {
	kv := ev.Kv
	if ev.Type == mvccpb.Event_DELETE {
		kv = ev.PrevKv
	}
	return kv == nil || kv.Version > 1 // nil: it was compacted already
}

// Marks implements watch.Host.
func (s *etcdSession) Marks(kv *mvccpb.KeyValue) (m driver.Marks) {
	if kv.Version > 1 && !strings.HasSuffix(string(kv.Key), valuedSuffix) {
		_, m = decodeMarks(kv.Value)
	}
	return m
}

// Check implements watch.Host.
func (s *etcdSession) Check(ctx context.Context, refs []driver.Ref, rev int64) ([]watch.State, error) {
	rs := make([]*pb.RangeRequest, len(refs))
	for i, ref := range refs {
		rs[i] = whole([]byte(ref.Key))
		rs[i].KeysOnly = strings.HasSuffix(ref.Key, valuedSuffix)
	}
	resps, at, err := s.read(ctx, rev, rs...)
	if err != nil {
		return nil, err
	}
	states := make([]watch.State, len(refs))
	for i, r := range resps {
		states[i].Rev = at
		if kv := first(r); kv != nil && kv.CreateRevision == refs[i].Place {
			states[i].There, states[i].Marks = true, s.Marks(kv)
		}
	}
	return states, nil
}

// Report implements watch.Host.
func (s *etcdSession) Report(t *watch.Target, k driver.EventKind, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(t.Queue)
	q.floor = max(q.floor, rev)
	if o := q.own[t.Ref.Place]; k == driver.Gone && o != nil && o.ref == t.Ref {
		o.gone = true
	}
}
