package queue

// doubts counts how often the session was in doubt: an own entry, in any queue, was found
// gone, and no answer said that the session itself deleted it. The session may have ended
// then, and all its entries with it, of whose ends no event has come yet. So only an answer
// to a request that was sent after a doubt proves that another own entry lives.
//
// An entry that was asked to leave is often found gone a moment before the answer comes. If
// the answer is that this request has deleted it, there was no reason to doubt.
type doubts struct {
	n       uint64            // how many there were
	reason  uint64            // the newest that no answer can resolve
	leaving map[*entry]uint64 // the newest of each entry whose answer can resolve it
}

// raise raises a doubt.
func (d *doubts) raise() {
	d.n++
	d.reason = d.n
}

// suspect raises a doubt that the answer to the Leave of an entry may resolve.
func (d *doubts) suspect(en *entry) {
	if d.leaving == nil {
		d.leaving = make(map[*entry]uint64)
	}
	d.n++
	d.leaving[en] = d.n
}

// answered takes in the answer to the Leave of an entry: whether that has deleted it.
func (d *doubts) answered(en *entry, deleted bool) {
	if n := d.leaving[en]; !deleted {
		d.reason = max(d.reason, n)
	}
	delete(d.leaving, en)
}

// open returns the number of the newest doubt that is not resolved, 0 if there is none.
func (d *doubts) open() uint64 {
	newest := d.reason
	for _, n := range d.leaving {
		newest = max(newest, n)
	}
	return newest
}
