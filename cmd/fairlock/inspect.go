package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		SuggestFor: []string{"ps", "locks", "dir"},
		Use:        "ls [PREFIX]",
		Aliases:    []string{"list"},
		Short:      "List the locks that have holders or waiters",
		Long: `List the locks whose names begin with PREFIX, or all: the kind, the first holder
(a leader by the value that it proposes), and how many wait.

HELD is for how long the first holder has held, QUEUED (-o wide) for how long it
has been in the queue, and OLDEST for how long the oldest waiter has waited. A
holder records when it was granted once it has held for a second; where nothing
is recorded, HELD is "-". All three count by the clocks of the owners' machines.
A row is yellow if the oldest waiter has waited for 30 s, and red from 5 min on.

As with grep, the exit status is 1 if PREFIX is given and matches nothing. It is
0 if there is no PREFIX and no lock. If some queues cannot be read, ls lists the
others, and fails as if it could read none.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
	}
	out := a.output(cmd, show.Table, show.Wide, show.JSON, show.YAML, show.Lines, show.Names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.with(cmd, func(ctx context.Context, s *session.Session) error {
			var queues []schema.Queue
			err := during(cmd, "reading the queues", func() (err error) {
				queues, err = inspect.ReadAll(ctx, s, firstArg(args))
				return err
			})
			_, some := errors.AsType[*inspect.Unreadable](err)
			if err != nil && !some {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case out.Objects():
				err = cmp.Or(show.All(out, w, queues), err)
			case out.Format == show.Names:
				for _, l := range queues {
					show.Name(w, l.Name)
				}
			case err == nil && len(queues) == 0 && firstArg(args) == "":
				fmt.Fprintln(cmd.ErrOrStderr(), "no lock has a holder or a waiter")
			case len(queues) > 0:
				out.Print(w, show.List(queues, out.Format == show.Wide).Lines()...)
			}
			if err == nil && len(queues) == 0 && firstArg(args) != "" {
				err = exit.Errorf(exit.NoSuchName, "no lock whose name begins with %q has a holder or a waiter", args[0])
			}
			return err
		})
	}
	return cmd
}

func (a *app) whoCommand() *cobra.Command {
	cmd := &cobra.Command{
		SuggestFor: []string{"status", "show", "holder", "holders", "waiters", "get"},
		Use:        "who NAME",
		Aliases:    []string{"queue"},
		Short:      "Show the holders of a lock and its waiters, in order",
		Long: `Show the queue of a lock: first the name, the kind and how much is held, then
the holders, then the waiters in the order in which they will hold. TOKEN is the
fencing token of the hold. The exit status is 1 if the lock has no holder and no
waiter.

ASKED is when the owner asked for the lock, by the clock of its machine, and
QUEUED how long ago that is. HELD is for how long a holder has held. HELD is "-"
where that is not known: in the first second, and for other programs. In an
election VALUE is what the candidate proposes. Yield requests (fairlock ask) are
listed below the table. Long rows run on; nothing is cut.`,
		Args:              aName,
		ValidArgsFunction: a.completeNames,
	}
	out := a.output(cmd, show.Table, show.Wide, show.JSON, show.YAML, show.Lines, show.Names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.with(cmd, func(ctx context.Context, s *session.Session) error {
			var queue schema.Queue
			err := during(cmd, "reading the queue", func() (err error) {
				queue, err = inspect.Read(ctx, s, args[0])
				switch {
				case err != nil:
					return err
				case len(queue.Entries) == 0:
					return a.emptyQueue(ctx, s, args[0])
				}
				queue.Asks, err = inspect.Asks(ctx, s, args[0])
				return err
			})
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case out.Objects():
				return out.One(w, queue)
			case out.Format == show.Names:
				show.Name(w, queue.Name)
			default:
				out.Print(w, show.Header(queue))
				out.Print(w, show.Queue(queue, out.Format == show.Wide).Lines()...)
				out.Print(w, show.Asks(queue.Asks)...)
			}
			return nil
		})
	}
	return cmd
}

// emptyQueue is the error for a name without an entry. It suggests a similar name that
// is in use.
func (a *app) emptyQueue(ctx context.Context, s *session.Session, name string) error {
	names, err := s.Names(ctx, "")
	near := nearest(name, names)
	if err == nil && near != "" {
		return exit.Errorf(exit.NoSuchName, "lock %q has no holder and no waiter: did you mean %q?", name, near)
	}
	return exit.Errorf(exit.NoSuchName, "lock %q has no holder and no waiter", name)
}

// firstArg returns the first argument, or "" if there is none.
func firstArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
