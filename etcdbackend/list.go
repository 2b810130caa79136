package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// namesPage is how many keys one read of Names brings.
const namesPage = 1000

// metasPage is how many entries' metadata one transaction reads key by key: etcd
// takes 128 operations in a transaction.
const metasPage = 100

// List implements driver.Backend. A whole queue is read in one transaction. Where
// only the first entries are wanted, the metadata of those that keep it beside the
// queue is read afterwards, as of the same revision. So the answers do not grow
// with the other entries.
func (b *backend) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	var es []driver.Entry
	var err error
	if most == 0 {
		es, err = b.listAll(ctx, name)
	} else {
		es, err = b.listFirst(ctx, name, most)
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: list %q: %w", name, err)
	}
	return es, nil
}

// listAll is List without a bound.
func (b *backend) listAll(ctx context.Context, name string) ([]driver.Entry, error) {
	line, metas := firstOf(b.lay.prefix(name)), b.lay.metas(name)
	line.Limit = 0
	resp, err := b.read(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
		opGet(line),
		opGet(&pb.RangeRequest{Key: []byte(metas), RangeEnd: prefixEnd(metas)}),
		opGet(whole(b.lay.ledger(name))),
		opGet(b.lay.allGrants(name)),
	}})
	if err != nil {
		return nil, err
	}
	part := func(i int) []*mvccpb.KeyValue { return resp.Responses[i].GetResponseRange().Kvs }
	return b.lay.list(name, part(0), part(1), first(part(2)), part(3)), nil
}

// listFirst is List of the first entries. It begins again where the revision of
// the entries was compacted before their metadata could be read.
func (b *backend) listFirst(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	for {
		line := firstOf(b.lay.prefix(name))
		line.Limit = int64(most)
		resp, err := b.read(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
			opGet(line), opGet(whole(b.lay.ledger(name))), opGet(b.lay.someGrants(name)),
		}})
		if err != nil {
			return nil, err
		}
		part := func(i int) []*mvccpb.KeyValue { return resp.Responses[i].GetResponseRange().Kvs }
		metas, err := b.metasOf(ctx, name, part(0), resp.Header.Revision)
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			continue
		case err != nil:
			return nil, err
		}
		return b.lay.list(name, part(0), metas, first(part(1)), part(2)), nil
	}
}

// metasOf reads the metadata of those entries that keep it beside the queue, as it
// was at a revision. It sends nothing where there are none.
func (b *backend) metasOf(ctx context.Context, name string, kvs []*mvccpb.KeyValue, rev int64) ([]*mvccpb.KeyValue, error) {
	var ops []*pb.RequestOp
	for _, kv := range kvs {
		if b.lay.isValued(name, kv) {
			op := whole(b.lay.meta(driver.Ref{Line: name, Key: string(kv.Key)}))
			op.Revision = rev
			ops = append(ops, opGet(op))
		}
	}
	var metas []*mvccpb.KeyValue
	for part := range slices.Chunk(ops, metasPage) {
		resp, err := b.read(ctx, &pb.TxnRequest{Success: part})
		if err != nil {
			return nil, err
		}
		for _, op := range resp.Responses {
			metas = append(metas, op.GetResponseRange().Kvs...)
		}
	}
	return metas, nil
}

// read sends a transaction that writes nothing.
func (b *backend) read(ctx context.Context, r *pb.TxnRequest) (resp *pb.TxnResponse, err error) {
	err = b.ask(ctx, b.pace(), func(ctx context.Context) (err error) {
		resp, err = b.kv.txn(ctx, r)
		return err
	})
	return resp, err
}

// list makes entries of the keys in a queue, of the metadata beside it, of its
// ledger, and of the records of when its entries were granted.
func (l layout) list(name string, kvs, metas []*mvccpb.KeyValue, ledger *mvccpb.KeyValue, grants []*mvccpb.KeyValue) []driver.Entry {
	said := make(map[string][]byte)
	for _, kv := range metas {
		said[string(kv.Key)] = kv.Value
	}
	account := readLedger(ledger)
	es := make([]driver.Entry, len(kvs))
	for i, kv := range kvs {
		es[i] = l.listed(name, kv, said)
		es[i].Granted = l.grantOf(es[i], grants)
		if i == 0 && account.names(es[i].Ref) { // the name of a waiter may be there too, see Join
			es[i].Past = account.past
		}
	}
	return es
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
