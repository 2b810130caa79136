package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/bench"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

const benchHelp = `Measure a service: clients acquire locks, hold each for the time of --hold,
release and acquire again, for the time of --duration. Each client has a session
of its own, all are in this process, and no other program uses their locks.

  acquire           from the request to the grant, with the time in the queue
  hand-off          from when a holder begins to release until a waiter holds
  fairness          Jain's index of how often each client of a lock held it
  order violations  grants whose token is not above the one before: must be 0
  overlaps          grants while another client held: must be 0
  lost              holds that ended early, because the service was too slow

The measurement is load for the service: think before you measure one that other
programs use. The exit status is 0 if all was in order, 1 if not, and 130 after
^C, which shows what was measured until then.`

func (a *app) benchCommand() *cobra.Command {
	o := bench.Options{Locks: 1, Clients: 10}
	hold, duration := span{set: true}, span{d: 10 * time.Second, set: true}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast and how fairly a service grants locks",
		Long:  benchHelp,
		Example: `  fairlock bench
  fairlock bench --locks 100 --clients 100 --duration 30s`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.IntVar(&o.Locks, "locks", o.Locks, "how many locks, `N`")
	fs.IntVar(&o.Clients, "clients", o.Clients, "how many clients, `N`, for all locks")
	fs.Var(&hold, "hold", "how long each holds, `DURATION`")
	fs.Var(&duration, "duration", "for how long to measure, `DURATION`")
	out := a.output(cmd, "text", show.JSON, show.YAML, show.Lines)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Hold, o.Duration = hold.d, duration.d
		switch {
		case o.Locks < 1 || o.Clients < o.Locks:
			return fmt.Errorf("--locks %d and --clients %d: want at least one lock, and a client for each", o.Locks, o.Clients)
		case o.Duration <= 0:
			return errors.New("--duration must be above zero")
		}
		ctx := cmd.Context()
		t, err := a.conn.Target()
		if err != nil {
			return err
		}
		for _, w := range t.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "fairlock: warning: %s\n", w)
		}
		t.Options.Memory = membackend.New() // with mem://, all sessions share one backend
		progress := screen.NewProgress(cmd.ErrOrStderr(), fmt.Sprintf("measuring for %s with %d clients; ^C ends it", o.Duration, o.Clients))
		b, err := bench.Run(ctx, func(ctx context.Context) (*session.Session, error) {
			return t.Open(ctx, session.Options{Label: "bench"})
		}, o)
		progress.Close()
		if err != nil {
			return exit.Of(err)
		}
		return benchResult(ctx, cmd, out, b)
	}
	return cmd
}

// benchResult prints what was measured. Its error has the exit code.
func benchResult(ctx context.Context, cmd *cobra.Command, out *show.Output, b schema.Bench) error {
	w := cmd.OutOrStdout()
	if out.Objects() {
		if err := out.One(w, b); err != nil {
			return exit.With(exit.Failed, err)
		}
	} else {
		screen.Print(w, out.Paint(w), 0, show.Bench(b)...)
	}
	switch {
	case b.OrderViolations > 0 || b.Overlaps > 0:
		return exit.Silently(exit.Failed)
	case ctx.Err() != nil:
		return exit.Silently(exit.Interrupted)
	}
	return nil
}
