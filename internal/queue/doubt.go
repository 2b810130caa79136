package queue

// doubts counts how often the session was in doubt: an own entry, in any queue, was found
// gone, and no answer showed that the session itself had deleted it. The session may have
// ended then, and with it all its entries, whose ends no event has reported yet. So only
// the answer to a request that was sent after a doubt proves that another own entry exists.
//
// When an entry leaves, the session often finds it gone a moment before the answer comes.
// If the answer is that this request has deleted the entry, there was no reason to doubt.
type doubts struct {
	// n is the number of doubts so far. It only rises, and names the newest.
	n uint64

	// reason is the newest doubt that no answer can resolve: at most n.
	reason uint64

	// leaving has the newest doubt of each entry whose answer to Leave can resolve it, until that
	// has come; nil until it is needed.
	leaving map[*Entry]uint64
}

// raise raises a doubt.
func (d *doubts) raise() {
	d.n++
	d.reason = d.n
}

// suspect raises a doubt that the answer to the Leave of an entry may resolve.
func (d *doubts) suspect(en *Entry) {
	if d.leaving == nil {
		d.leaving = make(map[*Entry]uint64)
	}
	d.n++
	d.leaving[en] = d.n
}

// answered takes in the answer to the Leave of an entry: whether that has deleted it.
func (d *doubts) answered(en *Entry, deleted bool) {
	n := d.leaving[en]
	if !deleted {
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
