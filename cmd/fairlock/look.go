package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/session"
)

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		SuggestFor: []string{"ps", "locks", "dir"},
		Use:        "ls [PREFIX]",
		Aliases:    []string{"list"},
		Short:      "List the locks that somebody holds or waits for",
		Long: `List the locks whose names begin with PREFIX, all without one: the recipe, who
holds and for how long, how many wait and for how long the oldest has.

HELD is for how long the first holder has held, QUEUED (-o wide) for how long it
has been in the queue, and OLDEST for how long the oldest waiter has. A holder
records since when it holds once it has held for a second; where nothing is
recorded, HELD is "-". All three count by the clocks of the owners' machines.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
	}
	out := a.output(cmd, show.Table, show.Wide, show.JSON, show.Lines, show.Names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.with(cmd, func(ctx context.Context, s *session.Session) error {
			lines, err := inspect.ReadAll(ctx, s, first(args))
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case out.IsJSON():
				return show.All(out, w, lines)
			case out.Format == show.Names:
				for _, l := range lines {
					fmt.Fprintln(w, l.Name)
				}
			case len(lines) == 0:
				fmt.Fprintln(cmd.ErrOrStderr(), "nobody holds or waits for anything")
			default:
				out.Print(w, show.List(lines, out.Format == show.Wide))
			}
			return nil
		})
	}
	return cmd
}

func (a *app) whoCommand() *cobra.Command {
	cmd := &cobra.Command{
		SuggestFor: []string{"status", "show", "holder", "holders", "waiters", "get"},
		Use:        "who NAME",
		Aliases:    []string{"queue"},
		Short:      "Show who holds a lock and who waits for it, in order",
		Long: `Show the line of a lock: holders first, then who waits, in the order in which
they will hold. TOKEN is the fencing token of the hold. The exit status is 1 if
nobody holds or waits.

ASKED is when the one asked, by the clock of its machine, and QUEUED how long
ago that is. HELD is for how long a holder has held. It is "-" where that is not
known: in the first second, and of other programs. Below the line stands
who asks the holders to yield, and why (fairlock ask).`,
		Args:              aName,
		ValidArgsFunction: a.completeNames,
	}
	out := a.output(cmd, show.Table, show.Wide, show.JSON, show.Lines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.with(cmd, func(ctx context.Context, s *session.Session) error {
			line, err := inspect.Read(ctx, s, args[0])
			switch {
			case err != nil:
				return err
			case len(line.Entries) == 0:
				return a.nobody(ctx, s, args[0])
			}
			if line.Asks, err = inspect.Asks(ctx, s, args[0]); err != nil {
				return err
			}
			if out.IsJSON() {
				return out.One(cmd.OutOrStdout(), line)
			}
			out.Print(cmd.OutOrStdout(), show.Queue(line, out.Format == show.Wide), show.Asks(line.Asks)...)
			return nil
		})
	}
	return cmd
}

// nobody is the error of who for a name without a line. A name that is nearly
// that one is what was meant, more often than not.
func (a *app) nobody(ctx context.Context, s *session.Session, name string) error {
	names, err := s.Names(ctx, "")
	if near := nearest(name, names); err == nil && near != "" {
		return exit.Errorf(exit.NoSuchName, "nobody holds or waits for %q: did you mean %q?", name, near)
	}
	return exit.Errorf(exit.NoSuchName, "nobody holds or waits for %q", name)
}

// first is an argument that need not be there.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
