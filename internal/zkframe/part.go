package zkframe

// Part is one request of a transaction, or a request that is alone.
type Part struct {
	Op    int32
	Path  string
	Flags int32 // of a create
}

// Parts returns the requests in a request. Each request of a transaction has a
// header of nine bytes, a path, and the fields of its kind.
func (f Frame) Parts() (all []Part) {
	if f.Op() != OpMulti {
		return []Part{{Op: f.Op(), Path: f.Path(), Flags: f.Number(len(f) - 4)}}
	}
	for at := 12; len(f) >= at+9 && f[at+4] == 0; {
		p := Part{Op: f.Number(at), Path: f.Text(at + 9)}
		at += 9 + 4 + len(p.Path)
		switch p.Op {
		case OpCreate:
			at += 4 + len(f.Text(at)) // the data
			n := f.Number(at)
			for at += 4; n > 0 && at < len(f); n-- { // permissions: a number and two texts
				at += 4
				at += 4 + len(f.Text(at))
				at += 4 + len(f.Text(at))
			}
			p.Flags = f.Number(at)
			at += 4
		case OpSetData:
			at += 4 + len(f.Text(at)) + 4
		default:
			at += 4 // the version
		}
		all = append(all, p)
	}
	return all
}
