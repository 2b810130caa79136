package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

const resizeHelp = `Change how many permits a semaphore has. Its first user, fairlock run --permits
or a program, has set the limit. The limit stays at the service, also while the
semaphore has no users, and a user that expects another limit gets an error.

If the limit rises, as many waiters as fit hold at once. If it falls, no holder
is stopped: the next waiter holds when enough permits are released. Waiters for
more permits than the limit get an error.

Exit codes: 0 done, 1 if NAME is no semaphore that was ever used, 77 no
permission.`

func (a *app) resizeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resize NAME N",
		Short: "Change how many permits a semaphore has",
		Long:  resizeHelp,
		Example: `  fairlock ls -o wide gpu        # its limit
  fairlock resize gpu 8`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return errors.New("want the NAME of a semaphore and how many permits it is to have")
			case len(args) > 2:
				return fmt.Errorf("unexpected %q after the number", args[2])
			}
			return nil
		},
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || n < 1 || n > semaphore.MaxLimit {
				return fmt.Errorf("%q is no number of permits: want a whole number, at least 1", args[1])
			}
			return a.with(cmd, func(ctx context.Context, s *session.Session) error {
				var before int64
				err := during(cmd, "resizing the semaphore", func() (err error) {
					before, err = resize(ctx, s, args[0], n)
					return err
				})
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: limit %d, before %d\n", args[0], n, before)
				}
				return err
			})
		},
	}
}

// resize changes the limit of a semaphore, and returns the limit before. It changes an
// existing limit only: otherwise a mistyped name would have a limit from then on.
func resize(ctx context.Context, s *session.Session, name string, n int64) (before int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m := semaphore.New(s, name, n)
	before, err = m.Limit(ctx)
	switch {
	case err != nil:
		return 0, err
	case before == 0:
		return 0, exit.Errorf(exit.Failed, "%q is no semaphore that was ever used: the first run --permits sets how many", name)
	}
	err = m.Resize(ctx, n)
	if err != nil && !errors.Is(err, session.ErrDenied) && !errors.Is(err, session.ErrRefused) {
		err = &unknownError{fmt.Sprintf("it is not known whether the limit of %q is %d now: see fairlock ls -o wide, or repeat it", name, n), err}
	}
	return before, err
}
