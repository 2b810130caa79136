package zktest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Leader returns the index of the member that leads: it reports that itself, in the
// newest known epoch, and a majority of all members serve. Leader blocks until there is
// one; a single member leads itself. It never returns a leader that was killed; it may
// return one that is cut off, until the others have elected another. It fails when ctx
// ends, with the last reports in the error.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	timeout := answerWithin
	for {
		i, err := e.poll(ctx, timeout)
		if err == nil {
			return i, nil
		}
		timeout = longer(timeout, err)
		select {
		case <-ctx.Done():
			return -1, fmt.Errorf("zktest: no leader: %w: %w", ctx.Err(), err)
		case <-time.After(pollEvery):
		}
	}
}

// poll asks every member once.
func (e *Ensemble) poll(ctx context.Context, timeout time.Duration) (int, error) {
	answers := make([]status, len(e.members))
	failed := each(e.members, func(m *Member) (err error) {
		answers[m.index], err = m.status(ctx, timeout)
		return err
	})
	i := leading(answers)
	if i >= 0 {
		return i, nil
	}
	return -1, errors.Join(failed, errors.New("no member leads a majority"))
}

// leading returns which of the members leads, or -1; a member that does not
// serve has no mode.
func leading(answers []status) int {
	leader, serving := -1, 0
	for i, a := range answers {
		if a.mode != "" {
			serving++
		}
		leads := a.mode == "leader" || a.mode == "standalone"
		if leads && (leader < 0 || a.zxid > answers[leader].zxid) {
			leader = i
		}
	}
	if serving <= len(answers)/2 {
		return -1
	}
	return leader
}
