package both

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// Replies cuts the replies of a client from that to a certain request on. It is the part of a
// drivertest.Client that CutRepliesTo and Heal are.
type Replies struct {
	tcpproxy.Proxies

	waits fault.Plan
	mu    sync.Mutex
	heals int // calls of Heal
}

// CutRepliesTo implements drivertest.Client.
func (r *Replies) CutRepliesTo(op fault.Op) { r.waits.Inject(op, fault.LostReply) }

// CutWaits reports whether the reply to a request of this kind is to be cut.
func (r *Replies) CutWaits(op fault.Op) bool { return r.waits.Waits(op) }

// TakeCut reports whether the reply to a request of one of these kinds is to be cut: by CutSince,
// when the reply is there. Before, the service may not have got the request.
func (r *Replies) TakeCut(ops ...fault.Op) (since int, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heals, r.waits.Take(ops...) != ""
}

// CutSince cuts the replies, unless Heal was called since TakeCut.
func (r *Replies) CutSince(since int) (cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cut = r.heals == since
	if cut {
		r.Cut(fault.Replies)
	}
	return cut
}

// Heal implements drivertest.Client.
func (r *Replies) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heals++
	r.Proxies.Heal()
}

// RepliesAreCutBehindTheRequest has the connections of a client of a suite break before a join
// whose replies are cut: the service gets it all the same, on a connection that is made first.
func RepliesAreCutBehindTheRequest(t *testing.T, s drivertest.Service, c drivertest.Client, reset func()) {
	b := c.Backend()
	o, err := b.Open(recipetest.Bounded(t), driver.Config{
		TTL: recipetest.CalmTTL, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	})
	require.NoError(t, err)
	reset()
	c.CutRepliesTo(fault.Join)
	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	joined := make(chan error, 1)
	go func() {
		_, err := o.Join(ctx, driver.JoinRequest{Queue: "q", Data: []byte("mine")})
		joined <- err
	}()
	recipetest.Until(t, "the service has done it", func() bool { return s.Count(t, "q") == 1 })
	cancel()
	require.ErrorIs(t, recipetest.Wait(t, joined, "the end of Join"), driver.ErrUnavailable, "no reply has come")
	c.Heal()
	require.NoError(t, o.Close(recipetest.Bounded(t)))
	require.NoError(t, b.Close())
}
