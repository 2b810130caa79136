package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pollEvery = 10 * time.Millisecond

	// A dead member does not answer, and a member may not answer during an election. So
	// the first polls are short. A slow machine needs more time.
	shortestPoll = 100 * time.Millisecond
	longestPoll  = 10 * time.Second

	// moveWithin is how long one attempt to move the leader has. Another one harms nothing.
	moveWithin = 2 * time.Second
)

// Leader returns the index of the member that leads: it reports that itself, and so
// does a majority of all members. Leader blocks until there is one. It never returns a
// leader that was killed; it may return one that is cut off, until the others have
// elected another. It fails when ctx ends, with the last reports in the error.
// Processes of a cluster with authentication answer only with Options.TLS.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for timeout := shortestPoll; ; timeout = min(2*timeout, longestPoll) {
		i, err := c.poll(ctx, timeout)
		if err == nil {
			return i, nil
		}
		select {
		case <-ctx.Done():
			return -1, fmt.Errorf("etcdtest: no leader: %w: %w", ctx.Err(), err)
		case <-time.After(pollEvery):
		}
	}
}

// poll asks every member once, and waits for no more answers than it needs.
func (c *Cluster) poll(ctx context.Context, timeout time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type reply struct {
		answer
		err error
	}
	replies := make(chan reply, len(c.members)) // room for those not waited for
	for _, m := range c.members {
		go func() { // ends with ctx
			self, leader, err := m.status(ctx)
			replies <- reply{answer{self, leader}, err}
		}()
	}
	var answers []answer
	var errs []error
	for range c.members {
		r := <-replies
		if r.err != nil {
			errs = append(errs, r.err)
			continue
		}
		answers = append(answers, r.answer)
		i := c.find(leading(answers, len(c.members)))
		if i >= 0 {
			return i, nil
		}
	}
	return -1, errors.Join(append(errs, errors.New("the members do not agree on one"))...)
}

// answer is what a member reports: its own id, and that of its leader or 0.
type answer struct{ self, leader uint64 }

// leading returns the id of the member that reports to lead and that a majority of n
// members follows, or 0. A leader that was cut off reports that too, without a majority.
func leading(answers []answer, n int) uint64 {
	votes := make(map[uint64]int)
	for _, a := range answers {
		votes[a.leader]++
	}
	for _, a := range answers {
		if a.self == a.leader && votes[a.leader] > n/2 {
			return a.self
		}
	}
	return 0
}

// find returns the index of the member with this id, or -1. No member has id 0.
func (c *Cluster) find(id uint64) int {
	for i, m := range c.members {
		if id != 0 && m.ID() == id {
			return i
		}
	}
	return -1
}

// MoveLeader makes member to the leader and returns when a majority reports it. It
// tries again while the present leader cannot reach the member, and fails when ctx
// ends. Leases are kept: a new leader grants each its full time again.
func (c *Cluster) MoveLeader(ctx context.Context, to int) error {
	for {
		from, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		if from == to {
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, moveWithin)
		err = c.members[from].moveLeader(attempt, c.members[to].ID())
		cancel()
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("etcdtest: move leader to %q: %w", c.members[to].Name(), err)
		}
		// Without an error the followers may not know the new leader yet; with one, the
		// leader may have changed by itself. etcd gives up a transfer to a member that it
		// does not reach within an election, and then waits for ever. Check again.
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}
