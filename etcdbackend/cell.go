package etcdbackend

import "sync"

// cell is a key that only this session writes, and only if it is as the session last knew
// it. So it shows whether an attempt without an answer was carried out, and an attempt that
// arrives late changes nothing.
//
// An attempt that writes the cell has written(key, written) as a condition. After an attempt
// without an answer, one look at the key decides:
//
//	written as before    the attempt was not carried out; once a later write of the cell
//	                     is carried out, it never will be
//	written since        the attempt was carried out, since no other client writes the key
//
// A program that writes the key all the same costs a request, see join.broken, and never a
// wrong answer about an entry: entries have conditions of their own.
type cell struct {
	key []byte // never changes; nil: there is no such cell, see own.detail

	// written is the revision of the newest write that the session knows of; 0: none, so
	// that the key is not there. It only rises, unless another program has deleted the key.
	written int64
}

// cells are the cells of one folder that belong to no entry: the fences of joins, and the
// witnesses of Updates that write no entry. Their keys are on the lease. They are used again, so
// there are never more than calls that need one at the same time, whatever was lost before. A
// new key for each would stay until the session ends, and etcd keeps every key name until it
// compacts.
type cells struct {
	folder string // of the keys, see layout.serial

	mu   sync.Mutex
	idle []*cell // those that no call uses, the newest last: few cells stay in use
	made int64   // how many there are; the number of the newest is in its key
}

// take returns a cell that no other call uses.
func (cs *cells) take(s *etcdSession) *cell {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	last := len(cs.idle) - 1
	if last >= 0 {
		c := cs.idle[last]
		cs.idle = cs.idle[:last]
		return c
	}
	cs.made++
	return &cell{key: s.lay.serial(cs.folder, s.lease.ID, cs.made)}
}

// free lets another call use a cell. No attempt may depend on it that can still be carried out:
// what the next call writes would make the condition of that attempt false, but an attempt of
// the next call could be taken for it. A cell of which this is not certain is never freed.
func (cs *cells) free(c *cell) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.idle = append(cs.idle, c)
}
