package concurrency

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fairlock/fairlock/session/driver"
)

// backend is a backend of which one service session comes, and no other after it: a Session is
// one lease. It does not end the lease; Session.Close does.
type backend struct {
	driver.Backend
	opened atomic.Bool // there is a service session, or was
	over   atomic.Bool // the Session has ended, and its entries are left to the end of the lease
}

// Open implements driver.Backend. An observer has no lease.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	if cfg.Observer {
		return b.Backend.Open(ctx, cfg) //nolint:wrapcheck // it is the same method
	}
	if b.opened.Swap(true) {
		return nil, fmt.Errorf("%w: the lease was lost, and a Session has no other", driver.ErrClosed)
	}
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		b.opened.Store(false)
		return nil, err //nolint:wrapcheck // it is the same method
	}
	return &serviceSession{s, b}, nil
}

// serviceSession is the lease of a Session, and the entries on it.
type serviceSession struct {
	driver.Session
	b *backend
}

// Leave implements driver.Session. When the Session has ended, it sends nothing and reports
// success: the entries stay on the lease, as those of etcd's own package, and end with it.
// Session.release knows that.
func (s *serviceSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if s.b.over.Load() {
		return make([]driver.Left, len(reqs)), nil
	}
	return s.Session.Leave(ctx, reqs...) //nolint:wrapcheck // it is the same method
}

// Close implements driver.Session. The lease stays.
func (s *serviceSession) Close(context.Context) error {
	s.Abandon()
	return nil
}
