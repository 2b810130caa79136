package zkbackend

import (
	"context"

	"github.com/go-zookeeper/zk"
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
// is answered. It calls unknown after each that was not.
func (s *sess) transact(ctx context.Context, t transaction, unknown ...func()) (outcomeOfSteps, error) {
	return ask(ctx, s, t.on, unknown...)
}
