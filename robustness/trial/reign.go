package trial

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// reign notes for how long the service had no leader, by what its servers say when
// they are asked themselves. While it has none it can grant nothing and take
// nothing away, whoever asks, and that may take longer than failover: a leader of
// ZooKeeper's that fails to bring a majority up to its state gives up only after
// initLimit, and then all elect anew.
type reign struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	longest time.Duration
	asked   history.Instant // when the question was that has no answer yet; 0 if there is none
}

// glance is how often it asks.
const glance = 50 * time.Millisecond

// watchLeader asks in a goroutine until it is ended. The leader's function waits
// until there is one.
func watchLeader(ctx context.Context, leader func(context.Context) (int, error)) *reign {
	ctx, stop := context.WithCancel(ctx)
	r := &reign{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			r.ask()
			_, err := leader(ctx)
			r.answered(err == nil)
			await(ctx, nil, glance)
		}
	}()
	return r
}

func (r *reign) ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = Now()
}

// answered takes in that there is a leader, or that nobody wants to know any more.
func (r *reign) answered(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if yes {
		r.longest = max(r.longest, time.Duration(Now()-r.asked))
	}
	r.asked = 0
}

// end ends the asking. What was noted stays.
func (r *reign) end() {
	r.stop()
	<-r.done
}

// without is the longest time until now in which there was no leader. It is 0 of a
// nil reign, where no fault was aimed at a server.
func (r *reign) without() time.Duration {
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
