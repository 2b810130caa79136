// Package drive makes the contenders of one contestant lock and unlock, and measures them. The
// measurements run in the process of the contenders: in the program itself, or in a worker,
// which runs Serve and is driven by a Worker. Both run the same code.
package drive

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// A Crew runs jobs with the contenders of one contestant, one job at a time. After an error it
// can only be closed.
type Crew interface {
	Do(ctx context.Context, j Job) (Result, error)
	Close(ctx context.Context) error
}

// An Opening describes a crew: N contenders, over at most so many clients.
type Opening struct {
	Contestant stand.Contestant
	N, Clients int
	// Weigh makes the sessions part of a waiter's footprint: the process is measured before
	// they are opened, when nothing has changed for so long. 0 leaves the sessions out.
	Weigh time.Duration
}

// A Job is what a crew does with the lock Name. Exactly one of the other fields is set.
type Job struct {
	Name   string
	Cycles int           `json:",omitempty"` // the first contender locks and unlocks so many times
	Pause  time.Duration `json:",omitempty"` // Cycles, Churn: for how long each holds, which its time excludes
	Hold   bool          `json:",omitempty"` // the first contender locks, and holds until the crew is closed
	Old    bool          `json:",omitempty"` // a snapshot of the servers' data is opened, see stand.Snapshots
	Repeat int           `json:",omitempty"` // all together lock and unlock so many times
	Names  int           `json:",omitempty"` // so many entries of the peer's kind are created and deleted
	Churn  time.Duration `json:",omitempty"` // all lock and unlock for so long
	Line   *Line         `json:",omitempty"`
	Gather *Sharing      `json:",omitempty"`
	Free   *Free         `json:",omitempty"`
	Wait   *Wait         `json:",omitempty"`
	Rest   *Rest         `json:",omitempty"`
}

// A Result is the result of a job.
type Result struct {
	Sent    stand.Counts    // by all clients, from the beginning of the job to its end
	Elapsed time.Duration   // of the job
	Took    []time.Duration `json:",omitempty"` // Cycles: how long each took
	Unlocks []time.Duration `json:",omitempty"` // Cycles: how long the unlock of each took
	Server  time.Duration   `json:",omitempty"` // Cycles: processor time of the servers, 0 if the stand does not see it

	Turns       Turns       // Churn
	Connections int         // Churn: of all clients together, if the stand counts them
	Spent       stand.Spent // Churn: by the servers, if the stand counts it
	Line        LineResult
	Wake        Wake
	Free        FreeResult
	Each        Footprint // Wait: of one waiter
	Rest        RestResult
}

// Local returns a crew in this process.
func Local(ctx context.Context, s stand.Stand, o Opening) (Crew, error) {
	l := &local{s: s}
	var err error
	if o.Weigh > 0 {
		l.before = new(Footprint)
		*l.before, err = measure(ctx, o.Weigh)
		if err != nil {
			return nil, err
		}
	}
	l.t, err = s.Open(ctx, o.Contestant, o.N, o.Clients)
	if err != nil {
		return nil, err
	}
	return l, nil
}

type local struct {
	s      stand.Stand
	t      *stand.Team
	before *Footprint
}

// Close implements Crew.
func (l *local) Close(context.Context) error { return l.t.Close() }

// Do implements Crew.
func (l *local) Do(ctx context.Context, j Job) (r Result, err error) {
	sent, start := l.t.Sent(), time.Now()
	switch {
	case j.Cycles > 0:
		err = l.cycles(ctx, j, &r)
	case j.Hold:
		_, err = l.t.Contenders[0].Lock(ctx, j.Name) // the end of its session releases it
	case j.Old:
		s, ok := l.s.(stand.Snapshots)
		err = errNoSnapshots
		if ok {
			err = s.Snapshot(ctx)
		}
	case j.Repeat > 0:
		err = repeat(ctx, l.t, j.Name, j.Repeat)
	case j.Names > 0:
		err = l.s.Fill(ctx, l.t.QueueOf(j.Name), j.Names)
		if err == nil {
			err = l.s.Clear(ctx, l.t.QueueOf(j.Name))
		}
	case j.Churn > 0:
		r.Turns, r.Connections, r.Spent, err = churn(ctx, l.s, l.t, j.Name, j.Churn, j.Pause)
	case j.Line != nil:
		r.Line, err = j.Line.run(ctx, l.s, l.t, j.Name)
	case j.Gather != nil:
		r.Wake, err = j.Gather.run(ctx, l.s, l.t, j.Name)
	case j.Free != nil:
		r.Free, err = j.Free.run(ctx, l.s, l.t, j.Name)
	case j.Wait != nil:
		r.Each, err = j.Wait.run(ctx, l.s, l.t, j.Name, l.before)
	case j.Rest != nil:
		r.Rest, err = j.Rest.run(ctx, l.s, l.t, j.Name)
	default:
		err = errNoJob
	}
	r.Elapsed, r.Sent = time.Since(start), l.t.Sent().Since(sent)
	return r, err
}

// cycles does the job Cycles.
func (l *local) cycles(ctx context.Context, j Job, r *Result) error {
	before, err := l.serverTime(ctx)
	if err != nil {
		return err
	}
	r.Took, r.Unlocks, err = cycles(ctx, l.t.Contenders[0], j.Name, j.Cycles, j.Pause)
	if err != nil {
		return err
	}
	after, err := l.serverTime(ctx)
	r.Server = after - before
	return err
}

// serverTime returns the processor time of the servers so far, 0 if the stand does not see it.
func (l *local) serverTime(ctx context.Context) (time.Duration, error) {
	p, ok := l.s.(stand.Processors)
	if !ok {
		return 0, nil
	}
	return p.ServerTime(ctx) //nolint:wrapcheck // it is of this module
}

var (
	errNoJob       = errors.New("the job is empty")
	errNoSnapshots = errors.New("the stand opens no snapshots")
)
