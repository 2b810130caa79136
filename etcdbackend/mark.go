package etcdbackend

import (
	"bytes"
	"encoding/json"
)

// mark is what has become of an entry since it was made. Its key still says
// what it was made as, so this stands in its value, among what the entry says
// of itself; readers of that ignore fields that they do not know.
type mark struct {
	Shared   bool `json:"shared,omitempty"`   // see Share
	Admitted bool `json:"admitted,omitempty"` // see Admit
}

// write puts a mark into a value that driver.Meta.Encode has made.
func (m mark) write(meta []byte) []byte {
	b, err := json.Marshal(m)
	if err != nil || m == (mark{}) || len(meta) < 2 || meta[0] != '{' {
		return meta
	}
	if bytes.Equal(meta, []byte("{}")) {
		return b
	}
	b[len(b)-1] = ','
	return append(b, meta[1:]...)
}

// readMark reads a value. One that is broken, or not ours, has no mark: the
// entry stays what its key says, which admits nobody too many.
func readMark(value []byte) mark {
	var m mark
	if len(value) > maxMarked || json.Unmarshal(value, &m) != nil {
		return mark{}
	}
	return m
}

// maxMarked is how long a value may be that is searched for a mark; ours are a
// fraction of it.
const maxMarked = 16 << 10
