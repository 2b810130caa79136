package etcdbackend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// A ledger is a key beside the queue, on no lease. It holds the name of the entry
// that holds the lock. After a clean release there is no key, for two reasons. A
// release then only deletes, and an etcd whose quota is used up carries it out. And
// a join that enters its name needs one condition, that there is no key.

// ledgerV1 is the stored form. A ledger without an entry is clean; this package
// writes none.
type ledgerV1 struct {
	V     int    `json:"v"`
	Entry string `json:"entry,omitempty"`

	// Place is the entry's. Join leaves it out, since it writes the name in the
	// transaction that makes the entry: it is when the ledger was written.
	Place int64 `json:"place,omitempty"`

	// Died says that the hold before was not given back.
	Died bool `json:"died,omitempty"`
}

func (l ledgerV1) encode() []byte {
	l.V = 1
	b, err := json.Marshal(l)
	if err != nil { // strings and ints cannot fail; be total all the same
		return []byte(`{"v":1}`)
	}
	return b
}

// account is what a ledger says.
type account struct {
	written int64 // 0 if there is none
	broken  bool
	holder  driver.Ref // without its line; zero if the last hold was given back
	past    driver.Past
}

// readLedger reads a ledger. Where there is none yet, nobody has died.
func readLedger(kv *mvccpb.KeyValue) account {
	if kv == nil {
		return account{past: driver.PastClean}
	}
	a := account{written: kv.ModRevision}
	var l ledgerV1
	if err := json.Unmarshal(kv.Value, &l); err != nil || l.V < 1 {
		a.broken = true
		return a
	}
	a.past = driver.PastClean
	if l.Died {
		a.past = driver.PastDied
	}
	if l.Entry != "" {
		a.holder = driver.Ref{Key: l.Entry, Place: l.Place}
		if l.Place == 0 {
			a.holder.Place = kv.ModRevision
		}
	}
	return a
}

// names says that the ledger has an entry's name.
func (a account) names(ref driver.Ref) bool {
	return a.holder.Key == ref.Key && a.holder.Place == ref.Place
}

// before is how the hold before that of an entry ended that is to be entered.
// Whoever is named ahead of it held, since names are written over clean ones
// only, or by those who hold; and whoever enters holds, so that one is gone. A
// name from behind was written by a join, over a clean ledger.
func (a account) before(ref driver.Ref) driver.Past {
	switch {
	case a.broken:
		return driver.PastUnknown
	case a.names(ref):
		return a.past
	case a.holder.Key != "" && a.holder.Place < ref.Place:
		return driver.PastDied
	}
	return driver.PastClean
}

// enterClean enters a new entry's name in the transaction that makes it, if there
// is no ledger.
func enterClean(ledger, key string) *pb.RequestOp {
	return opTxn(&pb.TxnRequest{
		Compare: []*pb.Compare{createdAt(ledger, 0)},
		Success: []*pb.RequestOp{opPut(ledger, ledgerV1{Entry: key}.encode(), 0)},
	})
}

// entered reads the answer to enterClean.
func entered(op *pb.ResponseOp) bool { return op.GetResponseTxn().Succeeded }

// strike deletes a ledger that has an entry's name, in the form of Join or in
// either form of Enter.
func strike(ledger string, ref driver.Ref) *pb.RequestOp {
	op := &pb.TxnRequest{Compare: []*pb.Compare{writtenAt(ledger, ref.Place)}}
	for _, died := range []bool{false, true} {
		l := ledgerV1{Entry: ref.Key, Place: ref.Place, Died: died}
		op = &pb.TxnRequest{
			Compare: []*pb.Compare{holds(ledger, l.encode())},
			Failure: []*pb.RequestOp{opTxn(op)},
		}
	}
	clean := []*pb.RequestOp{opDelete(ledger)}
	for t := op; t != nil; t = nested(t) {
		t.Success = clean
	}
	return opTxn(op)
}

// nested is the transaction in the other branch of one, nil if there is none.
func nested(t *pb.TxnRequest) *pb.TxnRequest {
	if len(t.Failure) == 0 {
		return nil
	}
	return t.Failure[0].GetRequestTxn()
}

// Enter implements driver.Session.
func (s *leased) Enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	ctx, done := s.bound(ctx)
	defer done()
	past, err := s.enter(ctx, ref)
	if err != nil {
		return driver.PastUnknown, fmt.Errorf("etcd: enter in the ledger of %q: %w", ref.Line, err)
	}
	return past, nil
}

// enter expects no ledger, and takes what there is from the answer.
func (s *leased) enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	ledger := s.b.lay.ledger(ref.Line)
	expected, past := createdAt(ledger, 0), driver.PastClean
	for {
		l := ledgerV1{Entry: ref.Key, Place: ref.Place, Died: past == driver.PastDied}
		resp, err := s.askFor(ctx, ref, &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(ref.Key, ref.Place), expected},
			Success: []*pb.RequestOp{opPut(ledger, l.encode(), 0)},
			Failure: []*pb.RequestOp{opGet(keyOnly(ref.Key)), opGet(whole(ledger))},
		})
		switch {
		case errors.Is(err, errFull):
			return s.enteredBefore(ctx, ref, err)
		case err != nil:
			return driver.PastUnknown, err
		case resp.Succeeded:
			return past, nil
		}
		kv := first(resp.Responses[0].GetResponseRange().Kvs)
		if kv == nil || kv.CreateRevision != ref.Place {
			return driver.PastUnknown, driver.ErrGone
		}
		a := readLedger(first(resp.Responses[1].GetResponseRange().Kvs))
		past = a.before(ref)
		if a.names(ref) {
			return past, nil
		}
		expected = writtenAt(ledger, a.written)
	}
}

// enteredBefore reads whether an attempt that was not answered has entered the name,
// once etcd has answered that its quota is used up. From then on it carries out no
// late attempt either, until an operator disarms the alarm.
func (s *leased) enteredBefore(ctx context.Context, ref driver.Ref, full error) (driver.Past, error) {
	var resp *pb.RangeResponse
	err := s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
		resp, err = s.b.kv.get(ctx, whole(s.b.lay.ledger(ref.Line)))
		return err
	})
	if err != nil {
		return driver.PastUnknown, err
	}
	if a := readLedger(first(resp.Kvs)); a.names(ref) {
		return a.past, nil
	}
	return driver.PastUnknown, full
}
