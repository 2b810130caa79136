package etcdbackend

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// namesPage is how many keys one read of Names brings.
const namesPage = 1000

// List implements driver.Backend.
func (b *backend) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	line, metas := firstOf(b.lay.prefix(name)), b.lay.metas(name)
	line.Limit = int64(most)
	r := &pb.TxnRequest{Success: []*pb.RequestOp{
		opGet(line),
		opGet(&pb.RangeRequest{Key: []byte(metas), RangeEnd: prefixEnd(metas)}),
		opGet(whole(b.lay.ledger(name))),
	}}
	var resp *pb.TxnResponse
	err := b.ask(ctx, b.pace(), func(ctx context.Context) (err error) {
		resp, err = b.kv.txn(ctx, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: list %q: %w", name, err)
	}
	said := make(map[string][]byte)
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		said[string(kv.Key)] = kv.Value
	}
	account := readLedger(first(resp.Responses[2].GetResponseRange().Kvs))
	kvs := resp.Responses[0].GetResponseRange().Kvs
	es := make([]driver.Entry, len(kvs))
	for i, kv := range kvs {
		es[i] = b.lay.listed(name, kv, said)
		if i == 0 && account.names(es[i].Ref) { // who waits may stand there too, see Join
			es[i].Past = account.past
		}
	}
	return es, nil
}

// Names implements driver.Backend. It reads page by page, so the answer is not
// of one moment. In LayoutConcurrency every key with a slash in it counts.
func (b *backend) Names(ctx context.Context, prefix string) ([]string, error) {
	from := prefix
	if b.lay.kind == LayoutNative {
		from = b.lay.root + "/" + escape(prefix)
	}
	end := clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		from, end = "\x00", "\x00" // all keys
	}
	var names []string
	for {
		r := &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(end), KeysOnly: true, Limit: namesPage}
		var resp *pb.RangeResponse
		err := b.ask(ctx, b.pace(), func(ctx context.Context) (err error) {
			resp, err = b.kv.get(ctx, r)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("etcd: names with prefix %q: %w", prefix, err)
		}
		for _, kv := range resp.Kvs {
			name, next, ok := b.lay.lineOf(string(kv.Key))
			if ok && strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
			from = next
		}
		if !resp.More {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		names = slices.Compact(names)
	}
}
