package zkbackend

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// transaction is what is done as a whole or not at all. The answer to one that is
// refused tells which step failed; its role tells what to make of that.
type transaction []step

// step is one request of a transaction.
type step struct {
	role role
	of   int // of several joins or leaves: which
	op   any
}

// role is what a step is for.
type role int

const (
	toCreate role = iota // an entry
	toCount              // the folder: tells czxid and length of the line
	toLimit              // check that the line has the limit
	toTell               // what an entry with a value says of itself
	toEnter              // the name into the ledger
	toLeave              // word of a hold, in the entry itself
	toMark               // ... in the folder
	toDelete             // an entry
	toClear              // something that hangs on it
	toProbe              // another entry
	toChange             // an entry
)

// longest is the longest request that servers take by default: jute.maxbuffer.
const longest = 0xfffff

// size is how many bytes the transaction's request has (MultiTransactionRecord of
// ZooKeeper).
func (t transaction) size() int {
	const header, step, number = 8, 9, 4 // of the request; of a step, and of the end; of a number or a length
	n := header + step
	for _, s := range t {
		n += step + number // its version or its flags
		switch op := s.op.(type) {
		case *zk.CreateRequest:
			n += number + len(op.Path) + number + len(op.Data) + number
			for _, a := range op.Acl {
				n += number + number + len(a.Scheme) + number + len(a.ID)
			}
		case *zk.SetDataRequest:
			n += number + len(op.Path) + number + len(op.Data)
		case *zk.DeleteRequest:
			n += number + len(op.Path)
		case *zk.CheckVersionRequest:
			n += number + len(op.Path)
		}
	}
	return n
}

// A server answers a request that is longer than its jute.maxbuffer by closing
// the connection. To send it again for ever would cut off all other locks of the
// session each time. So a large request is sent a few times at most.
const (
	largeRequest = 64 << 10 // what is called large: no server is known to take less
	maxCuts      = 3        // connections that a large request may end
)

// large follows one request that may be too long for the servers.
type large struct {
	size int
	cuts int // connections that the servers closed on it, one after the other
}

// check refuses a request that no server takes unless it was told to.
func (r *large) check() error {
	if r.size > longest {
		return fmt.Errorf("%w: a request of %d bytes, more than the %d that a server takes by default", driver.ErrRefused, r.size, longest)
	}
	return nil
}

// lost takes in that the request was not answered on a link. It returns an error
// if that has happened too often.
func (r *large) lost(l *link) error {
	if r.size <= largeRequest || !l.closedByServer() {
		r.cuts = 0
		return nil
	}
	if r.cuts++; r.cuts < maxCuts {
		return nil
	}
	return fmt.Errorf("%w: a request of %d bytes ended the connection %d times: is jute.maxbuffer of the servers smaller?",
		driver.ErrRefused, r.size, r.cuts)
}

func (t transaction) ops() []any {
	ops := make([]any, len(t))
	for i, s := range t {
		ops[i] = s.op
	}
	return ops
}

// outcomeOfSteps is the answer to a transaction.
type outcomeOfSteps struct {
	answers []zk.MultiResponse
	failed  step // if there was an error
}

// on sends the transaction on a connection.
func (t transaction) on(c *zk.Conn) (outcomeOfSteps, error) {
	if len(t) == 1 {
		if d, ok := t[0].op.(*zk.DeleteRequest); ok {
			return outcomeOfSteps{failed: t[0]}, c.Delete(d.Path, d.Version) //nolint:wrapcheck // the answer to a request
		}
	}
	rs, err := c.Multi(t.ops()...)
	switch {
	case err != nil:
		return outcomeOfSteps{failed: t[failedStep(rs)]}, err //nolint:wrapcheck // the same
	case len(rs) != len(t):
		return outcomeOfSteps{}, errOddAnswer
	}
	return outcomeOfSteps{answers: rs}, nil
}

// transact sends a transaction that may be carried out more than once until it
// is answered, or is too long. It calls unknown after each that was not answered.
func (s *sess) transact(ctx context.Context, t transaction, unknown ...func()) (outcomeOfSteps, error) {
	return askLarge(ctx, s, &large{size: t.size()}, t.on, unknown...)
}
