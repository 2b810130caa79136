package trial

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// leaderPoll measures for how long the service had no leader, by polling its servers.
// Without a leader the service can neither grant nor delete anything. That may last longer
// than failover: a ZooKeeper leader that fails to bring a majority up to its state gives
// up only after initLimit, and then the servers elect a leader again.
type leaderPoll struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	longest time.Duration
	asked   history.Instant // when the poll began that is not answered yet; 0 if there is none
}

// leaderPollEvery is the time between two polls.
const leaderPollEvery = 50 * time.Millisecond

// pollLeader polls in a goroutine until end. The function leader must block until there
// is a leader.
func pollLeader(ctx context.Context, leader func(context.Context) (int, error)) *leaderPoll {
	ctx, stop := context.WithCancel(ctx)
	r := &leaderPoll{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			r.started()
			_, err := leader(ctx)
			r.answered(err == nil)
			await(ctx, nil, leaderPollEvery)
		}
	}()
	return r
}

func (r *leaderPoll) started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = Now()
}

// answered ends a poll. ok means that there is a leader. Otherwise end has cancelled the
// poll, which then does not count.
func (r *leaderPoll) answered(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok {
		r.longest = max(r.longest, time.Duration(Now()-r.asked))
	}
	r.asked = 0
}

// end ends the polling. The measurement stays.
func (r *leaderPoll) end() {
	r.stop()
	<-r.done
}

// leaderless returns the longest time so far in which there was no leader. It is 0 for a
// nil leaderPoll, where no fault was aimed at a server.
func (r *leaderPoll) leaderless() time.Duration {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == 0 {
		return r.longest
	}
	return max(r.longest, time.Duration(Now()-r.asked))
}
