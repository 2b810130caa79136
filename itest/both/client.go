package both

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// Client is a client whose network can be broken: as a whole, by its proxies, and request by
// request, by an interceptor.
type Client struct {
	Replies
	fault.Plan

	// Service is the backend of the client, which sends each request of a call through Intercept.
	Service driver.Backend

	sent atomic.Int64
	late atomic.Int64

	mu        sync.Mutex
	kept      []func()
	onRequest func()
}

// Backend implements drivertest.Client.
func (c *Client) Backend() driver.Backend { return c.Service }

// Deliver implements drivertest.Client.
func (c *Client) Deliver() {
	c.mu.Lock()
	kept := c.kept
	c.kept = nil
	c.mu.Unlock()
	for _, f := range kept {
		f()
	}
}

// OnRequest implements drivertest.Client.
func (c *Client) OnRequest(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRequest = f
}

// Requests implements drivertest.Client.
func (c *Client) Requests() int { return int(c.sent.Load()) }

// Late implements drivertest.Client.
func (c *Client) Late() int { return int(c.late.Load()) }

var errBroken = errors.New("connection reset by the test")

// Intercept sees every request of a call.
func (c *Client) Intercept(ctx context.Context, op fault.Op, send func(ctx context.Context) error) error {
	c.mu.Lock()
	f := c.onRequest
	c.mu.Unlock()
	if f != nil {
		f()
	}
	c.sent.Add(1)
	err := c.attempt(ctx, op, send)
	if err != nil {
		c.late.Add(1)
	}
	return err
}

func (c *Client) attempt(ctx context.Context, op fault.Op, send func(ctx context.Context) error) error {
	whole := func() error { return send(context.WithoutCancel(ctx)) }
	if since, cut := c.TakeCut(op); cut {
		switch err := whole(); {
		case err != nil: // the service may not have got it
			c.CutRepliesTo(op)
			return err
		case !c.CutSince(since):
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	switch c.Take(op) {
	case fault.LostRequest:
		<-ctx.Done()
		return ctx.Err()
	case fault.BrokenRequest:
		return errBroken
	case fault.LostReply:
		_ = whole()
		<-ctx.Done()
		return ctx.Err()
	case fault.BrokenReply:
		_ = whole()
		return errBroken
	case fault.LateRequest:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kept = append(c.kept, func() { _ = whole() })
		return errBroken
	}
	return send(ctx)
}
