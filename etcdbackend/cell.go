package etcdbackend

import "sync"

// cell is a key that only this session writes, and only if it is as the session last knew
// it. So it shows whether an attempt without an answer was carried out, and an attempt that
// arrives late changes nothing.
type cell struct {
	key     []byte
	written int64 // the revision of the newest write that is known; 0: none
}

// cells are the cells of one folder that belong to no entry: the fences of joins, and the witnesses
// of Updates that write no entry. Their keys are on the lease. They are used again, so there are
// never more than calls that need one at the same time, whatever was lost before. A new key for
// each would stay until the session ends, and etcd keeps every key name until it compacts.
type cells struct {
	folder string

	mu   sync.Mutex
	idle []*cell
	made int64
}

// take returns a cell that no other call uses.
func (cs *cells) take(s *etcdSession) *cell {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if n := len(cs.idle); n > 0 {
		c := cs.idle[n-1]
		cs.idle = cs.idle[:n-1]
		return c
	}
	cs.made++
	return &cell{key: s.lay.serial(cs.folder, s.lease.ID, cs.made)}
}

// free lets another call use a cell on which no attempt depends that may still be carried out.
func (cs *cells) free(c *cell) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.idle = append(cs.idle, c)
}
