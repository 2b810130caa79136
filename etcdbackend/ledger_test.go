package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestLedgerTellsHowTheHoldBeforeEnded(t *testing.T) {
	me := driver.Ref{Line: "x", Key: "r/x/abc.0", Place: 50}
	for _, c := range []struct {
		name  string
		value string
		at    int64
		names bool
		want  driver.Past
	}{
		{"clean", `{"v":1}`, 40, false, driver.PastClean},
		{"another's, from its join ahead", `{"v":1,"entry":"r/x/def.0"}`, 40, false, driver.PastDied},
		{"another's, from its join behind", `{"v":1,"entry":"r/x/def.0"}`, 60, false, driver.PastClean},
		{"another's, entered", `{"v":1,"entry":"r/x/def.0","place":40}`, 60, false, driver.PastDied},
		{"another's, behind", `{"v":1,"entry":"r/x/def.0","place":60}`, 70, false, driver.PastClean},
		{"ours, from the join", `{"v":1,"entry":"r/x/abc.0"}`, 50, true, driver.PastClean},
		{"ours, entered", `{"v":1,"entry":"r/x/abc.0","place":50}`, 60, true, driver.PastClean},
		{"ours, entered over a death", `{"v":1,"entry":"r/x/abc.0","place":50,"died":true}`, 60, true, driver.PastDied},
		{"an earlier entry of our key", `{"v":1,"entry":"r/x/abc.0"}`, 40, false, driver.PastDied},
		{"broken", `{"v":1`, 40, false, driver.PastUnknown},
		{"of no version", `{}`, 40, false, driver.PastUnknown},
		{"of a newer version", `{"v":3,"colour":"red"}`, 40, false, driver.PastClean},
	} {
		a := readLedger(&mvccpb.KeyValue{Value: []byte(c.value), ModRevision: c.at})
		assert.Equal(t, c.want, a.before(me), c.name)
		assert.Equal(t, c.names, a.names(me), c.name)
		assert.Equal(t, c.at, a.written, c.name)
	}
	none := readLedger(nil)
	assert.Equal(t, driver.PastClean, none.before(me), "nobody has died where nobody was")
	assert.Zero(t, none.written)
}

// run carries out a transaction on one key, as etcd does: which branches are
// taken is decided before anything is written.
func run(t rapid.TB, op *pb.RequestOp, kv *mvccpb.KeyValue, rev int64) (after *mvccpb.KeyValue) {
	after = kv
	txn := op.GetRequestTxn()
	ok := true
	for _, c := range txn.Compare {
		switch c.Target {
		case pb.Compare_VALUE:
			ok = ok && kv != nil && string(kv.Value) == string(c.GetValue())
		case pb.Compare_MOD:
			ok = ok && kv.GetModRevision() == c.GetModRevision()
		case pb.Compare_CREATE:
			ok = ok && kv.GetCreateRevision() == c.GetCreateRevision()
		default:
			t.Fatalf("comparison of %s", c.Target)
		}
	}
	ops := txn.Failure
	if ok {
		ops = txn.Success
	}
	for _, op := range ops {
		switch {
		case op.GetRequestTxn() != nil:
			after = run(t, op, kv, rev)
		case op.GetRequestPut() != nil:
			require.Zero(t, op.GetRequestPut().Lease, "a ledger outlives its writers")
			after = &mvccpb.KeyValue{Value: op.GetRequestPut().Value, CreateRevision: rev, ModRevision: rev}
			if kv != nil {
				after.CreateRevision = kv.CreateRevision
			}
		case op.GetRequestDeleteRange() != nil:
			after = nil
		}
	}
	return after
}

func TestLedgerRemembersTheOneThatDied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kv *mvccpb.KeyValue
		rev := int64(10)
		died := false
		for range rapid.IntRange(1, 20).Draw(t, "holds") {
			rev++
			ref := driver.Ref{Key: rapid.SampledFrom([]string{"a.0", "a.1", "b.0"}).Draw(t, "key"), Place: rev}
			kv = run(t, enterClean("ledger", ref.Key), kv, rev)
			if !readLedger(kv).names(ref) || rapid.Bool().Draw(t, "enters") {
				past := readLedger(kv).before(ref)
				require.Equal(t, died, past == driver.PastDied)
				if !readLedger(kv).names(ref) {
					rev++
					kv = &mvccpb.KeyValue{Value: ledgerV1{Entry: ref.Key, Place: ref.Place, Died: died}.encode(), CreateRevision: 5, ModRevision: rev}
				}
				require.Equal(t, past, readLedger(kv).before(ref), "asked again")
			} else {
				require.False(t, died, "a name is entered over a clean ledger only")
			}
			rev++
			stranger := driver.Ref{Key: ref.Key, Place: ref.Place - 1}
			require.Equal(t, kv, run(t, strike("ledger", stranger), kv, rev), "another's name is not deleted")
			if died = rapid.Bool().Draw(t, "dies"); !died {
				kv = run(t, strike("ledger", ref), kv, rev)
				require.Nil(t, kv, "a clean ledger is no key")
			}
		}
	})
}
