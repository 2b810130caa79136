package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// The backoff after a command that ended soon after its start. Meanwhile another candidate
// can lead, whose command may have more success.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Elect runs a command while it leads. It campaigns again whenever the command has ended
// or the leadership was lost, until a signal ends it.
func Elect(ctx context.Context, conn *connect.Flags, std Std, o Options) error {
	o.Leader = true
	j, err := prepare(conn, std, o)
	if err != nil {
		return err
	}
	defer j.close()
	if j.Value == "" {
		j.Value = j.ID
	}
	backoff := minBackoff
	for {
		h, err := j.acquire(ctx)
		if err != nil {
			return j.failed(err)
		}
		began := j.clock.Now()
		j.granted(h)
		j.rep.info("leads, with token %d", h.Token())
		err = j.writeToken(h)
		if err != nil {
			_ = j.release(h) // nothing has run
			return err
		}
		res, onLost := j.supervise(ctx, h)
		ends := interrupts(res) || res.Err != nil && !res.Lost
		j.finish(h, &res, onLost, false)
		if ends {
			return j.end(res)
		}
		if j.clock.Now().Sub(began) >= maxBackoff {
			backoff = minBackoff
		}
		j.rep.info("%s; campaigns again", ending(res))
		err = j.pause(ctx, backoff)
		if err != nil {
			return j.failed(err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// ending returns a text about how a command has ended.
func ending(res supervise.Result) string {
	switch {
	case res.Lost && res.Err != nil:
		return "lost the leadership before the command was started"
	case res.Lost:
		return "lost the leadership, and the command is dead"
	case res.TooLong:
		return "the command ran for too long, and was stopped"
	case res.Ended:
		return "was asked to yield, and stopped the command"
	}
	return fmt.Sprintf("the command has ended, with code %d", res.Code)
}

// pause waits for d/2 to d, or until a signal comes.
func (j *job) pause(ctx context.Context, d time.Duration) error {
	ctx, stop := j.interruptible(ctx)
	driver.Sleep(ctx, j.clock, d/2+driver.Jitter(j.clock, d/2+1))
	return stop()
}

// Observe prints the leader, and every change of the leader, until a signal comes: a line
// with the token and the value, or "-" while there is no leader; or objects.
func Observe(ctx context.Context, conn *connect.Flags, std Std, o Options, asJSON bool) error {
	o.Leader = true
	j, err := prepare(conn, std, o)
	if err != nil {
		return err
	}
	defer j.close()
	ctx, stop := j.interruptible(ctx)
	err = j.observe(ctx, asJSON)
	var i *interrupted
	cause := stop()
	if errors.As(cause, &i) {
		return exit.BySignal(i.signal, false)
	}
	return exit.Of(err)
}

func (j *job) observe(ctx context.Context, asJSON bool) error {
	var err error
	j.s, err = j.target.Open(ctx, session.Options{TTL: j.TTL})
	if err != nil {
		return err
	}
	printed := make(chan error, 1)
	go func() { printed <- j.printLeaders(ctx, asJSON) }() // ends with ctx; with this process if nothing reads stdout
	select {
	case err = <-printed:
		return err
	case <-ctx.Done():
		return nil // Observe has the cause
	}
}

func (j *job) printLeaders(ctx context.Context, asJSON bool) error {
	for l, err := range election.New(j.s, j.Name).Observe(ctx) {
		switch {
		case err != nil:
		case asJSON:
			err = show.Line(j.std.Out, leaderOf(j.Name, l, j.clock.Wall()))
		case l.Vacant():
			_, err = fmt.Fprintln(j.std.Out, "-")
		default:
			_, err = fmt.Fprintf(j.std.Out, "%d %s\n", l.Token, screen.Printable(l.Value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaderOf describes the leader, or that there is none.
func leaderOf(name string, l election.Leader, now time.Time) schema.Leader {
	if l.Vacant() {
		return schema.NewLeader(name, now, nil)
	}
	queue := schema.Describe(name, 0, []session.Entry{l.Entry}, now)
	return schema.NewLeader(name, now, &queue.Entries[0])
}
