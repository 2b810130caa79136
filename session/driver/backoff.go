package driver

import (
	"context"
	"time"
)

// Backoff is the pauses between the attempts at one thing. Each is twice as long as the one
// before it, from Least up to Most. It is not safe for concurrent use.
type Backoff struct {
	Least, Most time.Duration

	// Spread makes each pause a random part of itself, at least half, so that clients that
	// failed together do not try again together.
	Spread bool

	next time.Duration // 0 before the first pause
}

// Next returns the pause that is due, and doubles the one after it.
func (b *Backoff) Next(c Clock) time.Duration {
	d := min(max(b.next, b.Least), b.Most)
	b.next = 2 * d
	if b.Spread {
		d = d/2 + Jitter(c, d/2)
	}
	return d
}

// Sleep waits for the pause that is due, or for the end of ctx, and reports whether the pause
// has passed.
func (b *Backoff) Sleep(ctx context.Context, c Clock) bool { return Sleep(ctx, c, b.Next(c)) }

// Reset makes the next pause the least.
func (b *Backoff) Reset() { b.next = 0 }
