package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// transaction is carried out as a whole or not at all. If a server refuses it, the answer shows
// which step failed, and the role of the step decides what that means.
//
// All that this package changes is a transaction. So what became of a request has one of three
// forms: all steps were done, none was and one of them is the reason, or nothing is known.
type transaction []step

// step is one request of a transaction.
type step struct {
	role role
	of   int // which of several joins or leaves it is for
	op   int // of toOp: which of that one's Ops
	req  any // of the functions at the end of this file
}

// role is what a step is for.
type role int

const (
	toCreate role = iota // make an entry
	toCount              // write the folder; its Stat has the entry's czxid and counts the queue
	toDetail             // write the detail of an entry
	toHold               // make the node of a holder of permits
	toOp                 // change a record
	toCheck              // require an entry
	toChange             // write an entry
	toRemake             // make an entry anew
	toTouch              // notify the watches of the queue
	toNotice             // the release notice: write an entry that was first, before it is deleted
	toDelete             // delete an entry
	toClear              // delete a node that is attached to an entry
)

// request returns the request. Also a single step is sent as a transaction: with enableEagerACLCheck a server
// refuses a single write before it has answered the requests ahead of it, which ends the connection.
func (t transaction) request() conn.Request {
	ops := make([]any, len(t))
	for i, s := range t {
		ops[i] = s.req
	}
	return conn.Multi(ops...)
}

// failed returns the step that was refused. It is the first one if the server has not named a step:
// then the error is about none, and classified.
func (t transaction) failed(a conn.Answer) step { return t[min(a.Failed, len(t)-1)] }

// call is one call of a method, over all its attempts. Each attempt is a transaction.
//
//	next --> attempt --> done
//	  ^         |
//	  '-- refused, nil
//
// Each refusal must change what next returns, or what the servers have, so that the attempts end.
type call interface {
	// next returns the transaction of the next attempt. It is empty if nothing is left to do.
	next(ctx context.Context) (transaction, error)

	// done is called when the last attempt was carried out, with the number of the transaction.
	done(zxid int64)

	// refused is called when the last attempt was not carried out, with the step that failed and
	// the server's error. Nil means that another attempt may be carried out.
	refused(ctx context.Context, st step, err error) error
}

// sender makes the attempts of a call.
type sender struct {
	conn *conn.Session

	// unsure: an attempt without an answer may have been carried out. Never reset: what a later attempt
	// finds may be the work of that one.
	unsure bool
}

// run makes attempts until one is carried out, or nothing is left to do. Its error is that of the
// call: one that means that nothing was done becomes driver.ErrUnavailable where that is not certain.
func (d *sender) run(ctx context.Context, c call) error {
	err := d.attempts(ctx, c)
	return driver.Outcome(err, d.unsure)
}

// attempts is run, and its error is about the last attempt only. An attempt whose connection is lost
// is sent again, by Repeat, so each transaction must find out whether it was carried out before: a
// deletion by NoNode, a creation by NodeExists.
func (d *sender) attempts(ctx context.Context, c call) error {
	for {
		t, err := c.next(ctx)
		if err != nil || len(t) == 0 {
			return err
		}
		a, err := d.conn.Repeat(ctx, t.request())
		_, unknown := isUnknown(err)
		d.unsure = d.unsure || unknown || a.Repeated
		if err == nil {
			c.done(zxidOf(a))
			return nil
		}
		if err := c.refused(ctx, t.failed(a), err); err != nil {
			return err
		}
	}
}

// zxidOf returns the number of a transaction, 0 if none of its steps shows it.
func zxidOf(a conn.Answer) (zxid int64) {
	for _, r := range a.Ops {
		if r.Stat != nil && r.Stat.Mzxid != 0 {
			zxid = r.Stat.Mzxid
		}
	}
	return zxid
}

// The requests of steps. Data is never nil: the library encodes that as a length of -1, which is no
// data instead of empty data.

func create(path string, data []byte, flags int32, acl []zk.ACL) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Data: append([]byte{}, data...), Flags: flags, Acl: acl}
}

func setData(path string, data []byte, version int32) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: path, Data: append([]byte{}, data...), Version: version}
}

func remove(path string) *zk.DeleteRequest {
	return &zk.DeleteRequest{Path: path, Version: -1}
}

func exists(path string) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: path, Version: -1}
}
