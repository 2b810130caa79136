package onetcd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

func TestKeysAreParsedByTheDocumentedLayout(t *testing.T) {
	for key, want := range map[string]keyInfo{
		"robustness/a/7f.0":       {lock: trial.Ours, queue: "a", weight: 1},
		"robustness/a/7f.1.r":     {lock: trial.Ours, queue: "a", weight: 1, shared: true},
		"robustness/a/7f.0.w3":    {lock: trial.Ours, queue: "a", weight: 3},
		"robustness/a/7f.0.v":     {lock: trial.Ours, queue: "a", weight: 1},
		"robustness/%v2/a/limit":  {lock: trial.Ours, queue: "a", limit: true},
		"stock/a/7f":              {lock: Stock, queue: "a", weight: 1},
		"robustness/%v2/a/ledger": {},
		"robustness/%fence/7f.1":  {},
		"other/a/7f.0":            {},
	} {
		p, ok := parse(key)
		assert.Equal(t, want, p, key)
		assert.Equal(t, want != keyInfo{}, ok, key)
	}
}

func TestDowngradedWriterIsAReader(t *testing.T) {
	p, _ := parse("robustness/a/7f.0")
	for value, want := range map[string]bool{
		"{}\n#shared":          true,
		"{}\n#shared,admitted": true,
		"{}\n#admitted":        false,
		"{\"shared\":true}":    false,
		"{}":                   false,
	} {
		c, ok := p.change(9, 5, 2, []byte(value), false)
		assert.Equal(t, want, ok, value)
		if want {
			assert.Equal(t, history.Change{At: 9, Kind: history.Shares, Place: 5, Shared: true, Weight: 1}, c)
		}
	}
}

func TestReleaseIsATransactionThatDeletesAnEntry(t *testing.T) {
	remove := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
	}
	inside := func(ops ...*pb.RequestOp) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: ops}}}
	}
	for _, c := range []struct {
		ops  []*pb.RequestOp
		want string
	}{
		{[]*pb.RequestOp{remove("stock/a/7f")}, kindRelease},
		{[]*pb.RequestOp{remove("robustness/a/7f.0")}, kindRelease},
		{[]*pb.RequestOp{inside(remove("robustness/a/7f.0.w2"), inside(remove("robustness/%v2/a/slot/0")))}, kindRelease},
		{[]*pb.RequestOp{remove("robustness/%v2/a/limit")}, ""},
		{[]*pb.RequestOp{inside(remove("robustness/%v2/a/slot/0"))}, ""},
	} {
		assert.Equal(t, c.want, kindOf(&pb.TxnRequest{Success: c.ops}), "%v", c.ops)
	}
}
