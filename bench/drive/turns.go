package drive

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// Turns shows how a lock was shared out among contenders that locked and unlocked in a loop.
type Turns struct {
	All    []int // how often each contender acquired
	Steady []int // the same, since each of them had acquired once

	// Passed is the greatest number of grants to one other contender between a call of Lock and
	// its own grant. A contender that has joined a FIFO queue sees at most one grant to each other.
	// The call is earlier than the join: while its request is on the way, others may take a turn.
	// Grants before each contender had acquired once do not count.
	Passed int

	// Unordered is the number of grants whose token is not above that of the grant before. The
	// tokens rise in the order of the joins, so each of these grants has passed an entry that was
	// ahead. It is -1 if the contenders have no tokens.
	Unordered int

	Gaps []time.Duration // from the start of each release until the next Lock returned
}

// counter counts turns while they are taken.
type counter struct {
	mu sync.Mutex
	Turns
	started int   // so many contenders have acquired
	token   int64 // of the last grant

	hold     time.Duration // of each acquisition
	released time.Time     // when the last release began
}

func newCounter(n int) *counter {
	return &counter{Turns: Turns{All: make([]int, n), Steady: make([]int, n), Unordered: -1}}
}

// turn lets contender i lock and unlock once.
func (c *counter) turn(ctx context.Context, i int, contender stand.Contender, name string) error {
	before := c.soFar()
	ordered, ok := contender.(stand.Ordered)
	var (
		unlock func() error
		token  int64
		err    error
	)
	if ok {
		unlock, token, err = ordered.LockOrdered(ctx, name)
	} else {
		unlock, err = contender.Lock(ctx, name)
	}
	if err != nil {
		return err //nolint:wrapcheck // it names itself
	}
	at := time.Now()
	c.granted(i, before, token)
	if c.hold > 0 {
		err = stand.Sleep(ctx, c.hold)
	}
	c.releases(at)
	return errors.Join(err, unlock())
}

// releases counts the time from the release before to a grant, and begins the next release.
func (c *counter) releases(granted time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released.IsZero() {
		c.Gaps = append(c.Gaps, granted.Sub(c.released))
	}
	c.released = time.Now()
}

// soFar returns how often each contender has acquired since each had once.
func (c *counter) soFar() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.Steady)
}

// granted counts a grant to contender i, which has the lock. before is what soFar has returned when
// it called Lock, and token is 0 if it has none.
func (c *counter) granted(i int, before []int, token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token > 0 {
		c.Unordered = max(c.Unordered, 0)
		if token <= c.token {
			c.Unordered++
		}
		c.token = token
	}
	c.All[i]++
	if c.started < len(c.All) {
		if c.All[i] == 1 {
			c.started++
		}
		return
	}
	for j, n := range c.Steady {
		if j != i {
			c.Passed = max(c.Passed, n-before[j])
		}
	}
	c.Steady[i]++
}
