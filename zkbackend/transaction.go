package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// transaction is carried out as a whole or not at all. If it is refused, the answer shows
// which step failed, and the step's role decides what that means.
type transaction []step

// step is one request of a transaction.
type step struct {
	role role
	of   int // which of several joins or leaves it is for
	op   int // toOp: which of that one's Ops
	req  any
}

// role is what a step is for.
type role int

const (
	toCreate role = iota // make an entry
	toCount              // write the folder: its Stat has the entry's czxid and counts the queue
	toDetail             // write what is next to an entry
	toHold               // make the node of a holder of permits
	toOp                 // change a record
	toCheck              // require an entry
	toChange             // write an entry
	toMark               // make an entry anew
	toTouch              // notify those that watch the queue
	toWord               // write an entry that was first, before it is deleted
	toDelete             // delete an entry
	toClear              // delete what is next to an entry
)

func (t transaction) request() conn.Request {
	if d, ok := t[0].req.(*zk.DeleteRequest); ok && len(t) == 1 {
		return conn.Delete(d.Path, d.Version)
	}
	ops := make([]any, len(t))
	for i, s := range t {
		ops[i] = s.req
	}
	return conn.Multi(ops...)
}

// failed returns the step that was refused.
func (t transaction) failed(a conn.Answer) step { return t[min(a.Failed, len(t)-1)] }

// sender sends the transactions of one call, which may be carried out more than once.
type sender struct {
	conn   *conn.Session
	unsure bool // an attempt was not answered, and may have been carried out
}

// send returns the number of the transaction, if one of its steps shows it, or the step
// that was refused.
func (d *sender) send(ctx context.Context, t transaction) (zxid int64, failed step, err error) {
	a, err := d.conn.Repeat(ctx, t.request())
	_, unknown := isUnknown(err)
	d.unsure = d.unsure || unknown || a.Repeated
	for _, r := range a.Ops {
		if r.Stat != nil && r.Stat.Mzxid != 0 {
			zxid = r.Stat.Mzxid
		}
	}
	return zxid, t.failed(a), err
}

// The requests of steps.

func create(path string, data []byte, flags int32, acl []zk.ACL) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Data: append([]byte{}, data...), Flags: flags, Acl: acl} // the data is never nil
}

func setData(path string, data []byte, version int32) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: path, Data: append([]byte{}, data...), Version: version}
}

func remove(path string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: path, Version: -1} }

func exists(path string) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: path, Version: -1}
}
