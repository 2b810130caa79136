package sqllocks

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// Lease is a row with an owner, a token that each new owner counts up, and a time by the clock of the database
// until which it is taken. The holder renews it, and believes in it no longer than its own clock allows, counted
// from when the request was sent. Schedulers on a table have it in this form. (On PostgreSQL the row lease of
// robustness/onpg is tried instead.)
type Lease struct {
	*DB
	TTL time.Duration
}

// Lock implements lock.Locker.
func (l *Lease) Lock(ctx context.Context, name string) (lock.Hold, error) {
	h := &leaseHold{l: l, name: name, owner: rand.Text(), lost: make(chan struct{})}
	for {
		sent := time.Now()
		token, err := l.take(ctx, h)
		switch {
		case err != nil:
			return nil, err
		case token > 0:
			h.token = token
			h.renew(sent) //nolint:contextcheck // it outlives the call
			return h, nil
		}
		lock.Wait(ctx, lock.Pause)
	}
}

// take tries once, and returns the token; 0 if another owner has the lease.
func (l *Lease) take(ctx context.Context, h *leaseHold) (token int64, err error) {
	n, err := l.exec(ctx, "update designs.lease set owner = $1, token = token + 1, until = "+l.d.inTime(l.TTL)+
		" where name = $2 and until < $now", h.owner, h.name)
	if err == nil && n == 0 {
		n, err = l.insert(ctx, "designs.lease (name, owner, token, until) values ($1, $2, 1, "+l.d.inTime(l.TTL)+")", h.name, h.owner)
	}
	if err != nil || n == 0 {
		return 0, err
	}
	err = l.QueryRowContext(ctx, l.d.text("select token from designs.lease where name = $1 and owner = $2"), h.name, h.owner).Scan(&token)
	return token, err
}

type leaseHold struct {
	l           *Lease
	name, owner string
	token       int64
	until       atomic.Int64 // by the clock of the program
	expiry      *time.Timer
	stop        context.CancelFunc
	rest        chan struct{}
	once        sync.Once
	lost        chan struct{}
}

// renew renews the lease until Unlock, or until its time is over.
func (h *leaseHold) renew(sent time.Time) {
	end := func() { h.once.Do(func() { close(h.lost) }) }
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	h.rest = make(chan struct{})
	h.until.Store(sent.Add(h.l.TTL).UnixNano())
	h.expiry = time.AfterFunc(h.l.TTL-time.Since(sent), end)
	go func() { // ends with Unlock, or with the lease
		defer close(h.rest)
		for ctx.Err() == nil {
			lock.Wait(ctx, h.l.TTL/5)
			sent := time.Now()
			one, cancel := context.WithTimeout(ctx, h.l.TTL/5)
			n, err := h.l.exec(one, "update designs.lease set until = "+h.l.d.inTime(h.l.TTL)+" where name = $1 and owner = $2 and token = $3", h.name, h.owner, h.token)
			cancel()
			switch {
			case err == nil && (n == 0 || !h.expiry.Stop()):
				end()
				return
			case err == nil:
				h.until.Store(sent.Add(h.l.TTL).UnixNano())
				h.expiry.Reset(h.l.TTL - time.Since(sent))
			}
		}
	}()
}

// Token implements lock.Tokened.
func (h *leaseHold) Token() int64 { return h.token }

// Held implements lock.Checked.
func (h *leaseHold) Held() bool { return time.Now().UnixNano() < h.until.Load() }

// Lost implements lock.Lossy.
func (h *leaseHold) Lost() <-chan struct{} { return h.lost }

// Unlock implements lock.Hold.
func (h *leaseHold) Unlock(ctx context.Context) error {
	h.stop()
	<-h.rest
	h.expiry.Stop()
	n, err := h.l.exec(ctx, "update designs.lease set until = "+h.l.d.inTime(-time.Second)+" where name = $1 and owner = $2 and token = $3", h.name, h.owner, h.token)
	return lostIf(n == 0, err)
}
