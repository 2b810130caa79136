package etcdbackend

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// deepLine is from how many entries on a line is deep: comparing and sorting it
// inside a transaction holds up every member.
const deepLine = 32

// deepLines remembers lines that were deep when a Join with IfEmpty found them
// taken. The next one reads first: in a deep line the answer will be the same,
// and a read does not run on every member.
type deepLines struct {
	mu sync.Mutex
	m  map[string]struct{}
}

// maxDeep bounds what is remembered. Forgetting costs a slow answer.
const maxDeep = 256

func (d *deepLines) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.m[name]
	return ok
}

func (d *deepLines) note(name string, depth int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case depth < deepLine:
		delete(d.m, name)
	case len(d.m) >= maxDeep, d.m == nil:
		d.m = map[string]struct{}{name: {}}
	default:
		d.m[name] = struct{}{}
	}
}

// taken is the answer to a Join with IfEmpty, from a range that has the first
// entry, in full or not, and the number of all.
func (s *leased) taken(line string, r *pb.RangeResponse, full bool) *driver.TakenError {
	s.deep.note(line, r.Count)
	t := &driver.TakenError{Count: int(r.Count)}
	if kv := first(r.Kvs); kv != nil {
		t.First = s.b.lay.entry(line, kv, full)
	}
	return t
}

// peek returns a *TakenError if somebody is in the line. Nil promises nothing.
func (s *leased) peek(ctx context.Context, req driver.JoinRequest) error {
	line, full := req.Line, req.Value == nil
	r := firstOf(s.b.lay.prefix(line))
	r.KeysOnly = !full
	var resp *pb.RangeResponse
	err := s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
		resp, err = s.b.kv.get(ctx, r)
		return err
	})
	switch {
	case err != nil:
		return err
	case resp.Count == 0:
		s.deep.note(line, 0)
		return nil
	}
	return s.taken(line, resp, full)
}
