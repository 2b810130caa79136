package stand

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Team is the contenders of one contestant and what they run on. A Stand makes
// it; whoever asked for it closes it.
type Team struct {
	Contestant
	Contenders []Contender
	Tallies    []*Tally // of the clients: contender i is on client i, counted round and round

	line func(name string) string
	busy func() bool
	way  WayHome
	shut func() error // what is below the sessions

	ending   sync.Once
	sessions []func() error // each ends one
	ended    error
}

// Parts are what a Stand makes a team of.
type Parts struct {
	Tallies []*Tally

	// Line says where the line of a lock is, in the words of Stand's methods.
	Line func(name string) string

	// Busy says that some client waits for an answer.
	Busy func() bool

	// Session opens a session on client i, for contenders who are on it.
	Session func(i int) (on Contender, end func() error, err error)

	// Home is the cheapest way to make contenders who wait return.
	Home WayHome

	// Shut closes what sessions stand on. Nil is nothing.
	Shut func() error
}

// A WayHome is what makes those who wait in a line return before their turn.
type WayHome int

// The ways home.
const (
	EndOfSession WayHome = iota
	EndOfContext         // they would not notice the end of the session
	OwnTurn              // they have none, and their line has to run out
)

// NewTeam opens the sessions of n contenders: one for each, or, for those who
// can share one, one for all. After an error nothing stays open.
func NewTeam(c Contestant, n int, share bool, p Parts) (*Team, error) {
	t := &Team{Contestant: c, Tallies: p.Tallies, line: p.Line, busy: p.Busy, way: p.Home, shut: p.Shut}
	opened := n
	if share {
		opened = 1
	}
	t.Contenders, t.sessions = make([]Contender, n), make([]func() error, opened)
	var g errgroup.Group
	g.SetLimit(atOnce)
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
		t.Contenders[i] = t.Contenders[0]
	}
	return t, nil
}

// atOnce bounds how many sessions are opened or closed at the same time.
const atOnce = 64

// Line is where the line of a lock is.
func (t *Team) Line(name string) string { return t.line(name) }

// Sent is what all clients have sent.
func (t *Team) Sent() Counts { return total(t.Tallies) }

// Quiet waits until clients have sent nothing for a while, were told nothing and
// wait for no answer: then everybody in line is where he wants to be. Keepalives
// and what else the clock sends do not count.
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

// Disperse makes all who wait in a line return, in the cheapest way that each
// side has. Cancel must end the contexts of those who wait.
func (t *Team) Disperse(cancel context.CancelFunc) error {
	switch t.way {
	case EndOfContext:
		cancel()
		return nil
	case EndOfSession:
		return t.end()
	case OwnTurn:
	}
	return nil
}

// Abandon is Disperse for a team of which somebody has failed: others may wait
// for what is left of him. It does what it can.
func (t *Team) Abandon(cancel context.CancelFunc) {
	cancel()
	_ = t.end() // there is an error already
}

// end ends the sessions, once.
func (t *Team) end() error {
	t.ending.Do(func() {
		var g errgroup.Group
		g.SetLimit(atOnce)
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

// Sleep returns early with the error of a ctx that ends.
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
