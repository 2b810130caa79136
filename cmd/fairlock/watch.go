package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

// readTimeout bounds a read of the commands that read again and again, and a request of
// those that change something. It is as long as a service with a quorum can be without a
// leader.
const readTimeout = 10 * time.Second

const watchHelp = `Print what happens to the locks whose names begin with PREFIX, or to all, a line
for each event, until ^C:

  queued    an entry waits
  granted   an entry holds
  released  a holder's entry is gone: it was released, or its session ended
  gone      a waiter's entry is gone: it gave up, or it held and released
            between two reads
  moved     a waiter has fewer entries ahead

The first events describe the entries that exist. The queues are read every
--interval: what comes and goes between two reads is not seen. While the service
does not answer, watch reports it on stderr, and goes on when it answers.`

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "watch [PREFIX]",
		Short:             "Print grants, releases and new waiters as they happen",
		Long:              watchHelp,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
	}
	out := a.output(cmd, "text", show.Lines)
	every := interval(200 * time.Millisecond)
	cmd.Flags().Var(&every, "interval", "read every `DURATION`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.with(cmd, func(ctx context.Context, s *session.Session) error {
			w := cmd.OutOrStdout()
			paint := out.Paint(w)
			var before []schema.Queue
			read := func(ctx context.Context) ([]schema.Queue, error) { return inspect.ReadAll(ctx, s, firstArg(args)) }
			return follow(ctx, time.Duration(every), cmd.ErrOrStderr(), read, func(now []schema.Queue) error {
				events := inspect.Changes(before, now, time.Now())
				before = now
				for _, e := range events {
					if err := printEvent(w, paint, out.Objects(), e); err != nil {
						return exit.With(exit.Failed, err) // the reader of stdout is gone
					}
				}
				return nil
			})
		})
	}
	return cmd
}

// printEvent prints e as a line of text, or of JSON.
func printEvent(w io.Writer, paint screen.Paint, asJSON bool, e schema.Event) error {
	if asJSON {
		return show.Line(w, e)
	}
	_, err := fmt.Fprintln(w, paint.Line(show.Event(e)))
	return err
}

// follow calls read at each interval and gives its result to f. It goes on while the
// service cannot be reached. It ends with f's error, with an error of read that a retry
// cannot help, or silently when ctx ends.
func follow[T any](ctx context.Context, every time.Duration, stderr io.Writer, read func(context.Context) (T, error), f func(T) error) error {
	lost := false
	err := inspect.Every(ctx, every, func() error {
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		result, err := read(bounded)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			if lost {
				fmt.Fprintln(stderr, "fairlock: the service answers again")
			}
			lost = false
			return f(result)
		case errors.Is(err, session.ErrDenied), errors.Is(err, session.ErrRefused):
			return err
		}
		if !lost {
			fmt.Fprintf(stderr, "fairlock: warning: the locks cannot be read since %s: %s\n", time.Now().Format(time.TimeOnly), exit.Plain(err))
		}
		lost = true
		return nil
	})
	if ctx.Err() != nil {
		return exit.Silently(exit.Interrupted) // the normal end
	}
	return err
}

// interval is a flag for how often to read.
type interval time.Duration

// leastInterval is the shortest interval allowed.
const leastInterval = 10 * time.Millisecond

// String implements pflag.Value.
func (d *interval) String() string { return time.Duration(*d).String() }

// Set implements pflag.Value.
func (d *interval) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v < leastInterval {
		return fmt.Errorf("want a duration such as 500ms, at least %s", leastInterval)
	}
	*d = interval(v)
	return nil
}

// Type implements pflag.Value.
func (d *interval) Type() string { return "duration" }
