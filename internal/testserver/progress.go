package testserver

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/metronome"
)

// inAll is how many times a silence a start may take, whatever its progress: servers that
// never find each other log that for ever.
const inAll = 10

// Progressing returns a context for a wait that has no bound in time as long as there is
// progress: as long as step returns another value than before. The context ends with ctx, and
// when step has returned one value for the time of silence, without the time in which the
// machine did not let this process run. Its cause is then a context.DeadlineExceeded. The
// caller calls cancel in the end, which waits for the goroutine that calls step.
func Progressing(ctx context.Context, silence time.Duration, step func() int) (progressing context.Context, cancel func()) {
	progressing, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { // ends with the context
		defer close(done)
		if err := silent(progressing, silence, step); err != nil {
			end(err)
		}
	}()
	return progressing, func() {
		end(nil)
		<-done
	}
}

// silent returns an error when there is no more progress, and nil when ctx ends.
func silent(ctx context.Context, silence time.Duration, step func() int) error {
	ran := metronome.Start()
	defer ran.Stop()
	check := time.NewTicker(max(silence/100, time.Millisecond))
	defer check.Stop()
	began := time.Now()
	last, since := step(), began
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
		}
		now := time.Now()
		s := step()
		if s != last {
			last, since = s, now
		}
		switch {
		case now.Sub(since)-ran.Stalled(since) > silence:
			return fmt.Errorf("no progress in %v: %w", silence, context.DeadlineExceeded)
		case now.Sub(began)-ran.Stalled(began) > inAll*silence:
			return fmt.Errorf("not in %v, in spite of progress: %w", inAll*silence, context.DeadlineExceeded)
		}
	}
}
