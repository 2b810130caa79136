package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/doctor"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
)

const doctorHelp = `Examine the service and its queues; with NAME, the queue of that lock, and the
deadlocks of all:

  connection  can a session be opened, and does every server answer
  alarms      what the servers report: quorum, quota, alarms, connections
  keeps       for how long exclusion, order and tokens are kept: always, until
              data is lost, or until the primary splits
  tables      in PostgreSQL: life, privileges, dead rows, notifications
  root        in Redis: life, rights, sessions, entries
  round-trip  how long a read takes, against the TTL
  clock       clocks of machines that are known to be wrong
  entries     entries of other programs, and those without a session
  tokens      fencing tokens that went backwards
  deadlock    callers that wait for each other

Deadlocks are found from the locks that callers reported as held when they
asked: in Go, a call with the context of a hold reports it. If no session can be
opened, doctor names the checks that it skipped. The exit status is 0 if there
is no problem, and 1 if there is one. A warning is no problem.`

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "doctor [NAME]",
		Short:             "Find what is wrong: in the service, a queue, or a deadlock",
		Long:              doctorHelp,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
	}
	out := a.output(cmd, "text", show.JSON, show.YAML, show.Lines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := a.conn.Target()
		if err != nil {
			return err
		}
		for _, w := range t.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "fairlock: warning: %s\n", w)
		}
		w := cmd.OutOrStdout()
		problems := 0
		found := []schema.Finding{}
		progress := screen.NewProgress(cmd.ErrOrStderr(), "")
		err = doctor.Examine(cmd.Context(), t, firstArg(args), progress.SetText, func(f schema.Finding) {
			progress.Clear()
			if f.Level == schema.Bad {
				problems++
			}
			switch out.Format {
			case show.JSON, show.YAML:
				found = append(found, f)
			case show.Lines:
				_ = show.Line(w, f) // the reader of stdout is gone; the exit code still reports problems
			default:
				screen.Print(w, out.Paint(w), 0, show.Finding(f)...)
			}
		})
		progress.Close()
		var written error
		if out.Objects() && out.Format != show.Lines {
			written = show.All(out, w, found)
		}
		switch {
		case err != nil:
			return exit.Of(err)
		case problems > 0:
			return exit.Silently(exit.Failed)
		}
		return exit.With(exit.Failed, written)
	}
	return cmd
}
