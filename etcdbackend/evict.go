package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Evict implements driver.Backend. A key may have been used again, so it is the
// place that is deleted. What hung on the entry is left to its owner, who may
// have put another in its place by then.
func (b *backend) Evict(ctx context.Context, e driver.Entry) error {
	err := error(driver.ErrGone)
	if strings.HasPrefix(e.Key, b.lay.prefix(e.Line)) && e.Place > 0 {
		err = b.evict(ctx, e.Ref)
	}
	if err != nil {
		return fmt.Errorf("etcd: evict %q from %q: %w", e.Key, e.Line, err)
	}
	return nil
}

func (b *backend) evict(ctx context.Context, ref driver.Ref) error {
	unsure := false
	var resp *pb.TxnResponse
	err := b.ask(ctx, b.pace(), func(ctx context.Context) (err error) {
		resp, err = b.kv.txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(ref.Key, ref.Place)},
			Success: []*pb.RequestOp{opDelete(ref.Key)},
		})
		unsure = unsure || err != nil && classify(err) == unknown
		return err
	})
	switch {
	case errors.Is(err, driver.ErrDenied):
		return fmt.Errorf("permission to read and write the key is missing: %w", err)
	case err != nil:
		return err
	case !resp.Succeeded && !unsure:
		return driver.ErrGone
	}
	return nil
}
