package script

import (
	"strconv"

	"github.com/fairlock/fairlock/session/driver"
)

// Args are the arguments of a script, in the order in which it reads them.
type Args []string

// Text appends texts.
func (a *Args) Text(all ...string) { *a = append(*a, all...) }

// Int appends numbers.
func (a *Args) Int(all ...int64) {
	for _, n := range all {
		*a = append(*a, strconv.FormatInt(n, 10))
	}
}

// Flag appends a boolean.
func (a *Args) Flag(b bool) {
	if b {
		*a = append(*a, "1")
	} else {
		*a = append(*a, "0")
	}
}

// Bytes appends whether a value is there, and the value.
func (a *Args) Bytes(value []byte) {
	a.Flag(value != nil)
	*a = append(*a, string(value))
}

// Texts appends how many texts there are, and the texts.
func (a *Args) Texts(all []string) {
	a.Int(int64(len(all)))
	a.Text(all...)
}

// Ops appends the ops of a request.
func (a *Args) Ops(ops []driver.Op) {
	a.Int(int64(len(ops)))
	for _, o := range ops {
		with := string(o.If.Value)
		if o.If.Kind == driver.IfAt {
			with = strconv.FormatInt(o.If.Version, 10)
		}
		a.Text(o.Record)
		a.Int(int64(o.If.Kind))
		a.Text(with)
		a.Bytes(o.Value)
		a.Flag(o.Bound)
		a.Flag(o.Optional)
	}
}
