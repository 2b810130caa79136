package etcdbackend

import (
	"context"
	"encoding/json"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// A ledger is a key beside the line, on no lease: its value is the same few
// bytes whenever the last hold was given back, and else the name of the entry
// that holds. So a request that writes a name over a clean ledger has the
// condition that it is clean, and need not know when it became so.

// ledgerV1 is the stored form. A clean ledger has no entry.
type ledgerV1 struct {
	V     int    `json:"v"`
	Entry string `json:"entry,omitempty"`

	// Place is the entry's. Join leaves it out, since it writes the name in the
	// transaction that makes the entry: it is when the ledger was written.
	Place int64 `json:"place,omitempty"`

	// Died says that the hold before was not given back.
	Died bool `json:"died,omitempty"`
}

// cleanLedger is the value of a clean ledger, to the byte.
func cleanLedger() []byte { return ledgerV1{}.encode() }

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

// enterClean enters a new entry's name in the transaction that makes it, if the
// ledger is clean or there is none.
func enterClean(ledger, key string) *pb.RequestOp {
	put := []*pb.RequestOp{opPut(ledger, ledgerV1{Entry: key}.encode(), 0)}
	return opTxn(&pb.TxnRequest{
		Compare: []*pb.Compare{holds(ledger, cleanLedger())},
		Success: put,
		// A key that is not there does not have a value to compare.
		Failure: []*pb.RequestOp{opTxn(&pb.TxnRequest{Compare: []*pb.Compare{createdAt(ledger, 0)}, Success: put})},
	})
}

// entered reads the answer to enterClean.
func entered(op *pb.ResponseOp) bool {
	t := op.GetResponseTxn()
	return t.Succeeded || t.Responses[0].GetResponseTxn().Succeeded
}

// strike makes a ledger clean that has an entry's name, in the form of Join or
// in either form of Enter.
func strike(ledger string, ref driver.Ref) *pb.RequestOp {
	op := &pb.TxnRequest{Compare: []*pb.Compare{writtenAt(ledger, ref.Place)}}
	for _, died := range []bool{false, true} {
		l := ledgerV1{Entry: ref.Key, Place: ref.Place, Died: died}
		op = &pb.TxnRequest{
			Compare: []*pb.Compare{holds(ledger, l.encode())},
			Failure: []*pb.RequestOp{opTxn(op)},
		}
	}
	clean := []*pb.RequestOp{opPut(ledger, cleanLedger(), 0)}
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

// enter expects a clean ledger, and takes what else there is from the answer.
func (s *leased) enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	ledger := s.b.lay.ledger(ref.Line)
	expected, past := holds(ledger, cleanLedger()), driver.PastClean
	for {
		l := ledgerV1{Entry: ref.Key, Place: ref.Place, Died: past == driver.PastDied}
		resp, err := s.askFor(ctx, ref, &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(ref.Key, ref.Place), expected},
			Success: []*pb.RequestOp{opPut(ledger, l.encode(), 0)},
			Failure: []*pb.RequestOp{opGet(keyOnly(ref.Key)), opGet(whole(ledger))},
		})
		switch {
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
