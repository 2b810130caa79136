package stand

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Team is the contenders of one contestant, with their clients. A Stand opens it, and the
// caller closes it.
type Team struct {
	Contestant
	Contenders []Contender
	Tallies    []*Tally // of the clients: contender i uses client i modulo their number

	queueOf func(name string) string
	busy    func() bool
	stop    StopMode
	shut    func() error // closes what the sessions use

	ending   sync.Once
	sessions []func() error // each function ends one session
	ended    error
}

// Parts are the parts from which a Stand makes a Team.
type Parts struct {
	Tallies []*Tally

	// QueueOf returns the queue of a lock, as the methods of Stand take it.
	QueueOf func(name string) string

	// Busy reports whether a client waits for an answer.
	Busy func() bool

	// Session opens a session on client i, and returns a contender that uses it.
	Session func(i int) (on Contender, end func() error, err error)

	// Stop is the cheapest way to make waiting contenders return.
	Stop StopMode

	// Shut closes what the sessions use. It may be nil.
	Shut func() error
}

// A StopMode is a way to make waiters return before they have acquired.
type StopMode int

// The modes.
const (
	StopByClose   StopMode = iota
	StopByContext          // because the waiters do not notice the end of the session
	StopByTurn             // no way: each waiter returns after its turn
)

// NewTeam opens the sessions of n contenders: one for all if share is true, or so many as
// the contestant has, otherwise one for each. After an error nothing stays open.
func NewTeam(c Contestant, n int, share bool, p Parts) (*Team, error) {
	t := &Team{Contestant: c, Tallies: p.Tallies, queueOf: p.QueueOf, busy: p.Busy, stop: p.Stop, shut: p.Shut}
	opened := n
	if share {
		opened = max(c.Sessions, 1)
	}
	t.Contenders, t.sessions = make([]Contender, n), make([]func() error, opened)
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for i := range opened {
		g.Go(func() (err error) {
			t.Contenders[i], t.sessions[i], err = p.Session(i % len(p.Tallies))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	for i := opened; i < n; i++ {
		t.Contenders[i] = t.Contenders[i%opened]
	}
	return t, nil
}

// maxParallel bounds how many sessions are opened or closed at the same time.
const maxParallel = 64

// QueueOf returns the queue of a lock, as the methods of Stand take it.
func (t *Team) QueueOf(name string) string { return t.queueOf(name) }

// Sent returns the sums over all clients.
func (t *Team) Sent() Counts { return total(t.Tallies) }

// Quiet waits until the clients have sent nothing and received no event for d, and wait for
// no answer. Then every waiter has done what it does when it joins. Keepalives and other
// periodic requests do not count.
func (t *Team) Quiet(ctx context.Context, d time.Duration) error {
	for before := int64(-1); ; {
		now := int64(0)
		for _, c := range t.Tallies {
			now += c.Prompted() + c.Events()
		}
		if now == before && !t.busy() {
			return nil
		}
		before = now
		if err := Sleep(ctx, d); err != nil {
			return err
		}
	}
}

// StopWaiters makes all waiters return, in the cheapest way of this team. Cancel must end the
// contexts of the waiters.
func (t *Team) StopWaiters(cancel context.CancelFunc) error {
	switch t.stop {
	case StopByContext:
		cancel()
		return nil
	case StopByClose:
		return t.end()
	case StopByTurn:
	}
	return nil
}

// Abort stops all contenders of a team after one has failed, because the others may wait for
// its entry. It ignores errors.
func (t *Team) Abort(cancel context.CancelFunc) {
	cancel()
	_ = t.end() // the caller has an error already
}

// end ends the sessions, once.
func (t *Team) end() error {
	t.ending.Do(func() {
		var g errgroup.Group
		g.SetLimit(maxParallel)
		for _, end := range t.sessions {
			if end != nil {
				g.Go(end)
			}
		}
		t.ended = g.Wait()
	})
	return t.ended
}

// Close ends the sessions and closes what they stand on.
func (t *Team) Close() error {
	err := t.end()
	if t.shut != nil {
		err = errors.Join(err, t.shut())
	}
	return err
}

// Sleep sleeps for d. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
