package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/schema"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/session"
)

// The least terminal on which top makes sense.
const (
	topWidth  = 40
	topHeight = 5
)

func (a *app) topCommand() *cobra.Command {
	every := interval(time.Second)
	cmd := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Show live, on a terminal, who holds and how many wait",
		Long: `Show the locks whose names begin with PREFIX, all without one, those first for
which most wait, drawn again every --interval until it is interrupted.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, ok := cmd.OutOrStdout().(*os.File)
			if !ok || !screen.Capable(f, topWidth, topHeight) {
				return exit.Errorf(exit.Usage, "top needs a terminal of %d columns and %d lines: without one, use ls or watch", topWidth, topHeight)
			}
			return a.with(cmd, func(ctx context.Context, s *session.Session) error {
				return a.top(ctx, f, s, first(args), time.Duration(every))
			})
		},
	}
	cmd.Flags().Var(&every, "interval", "look every `TIME`")
	return cmd
}

// top draws until ctx ends. What it could not read it says in the title, and
// shows what it knew.
func (a *app) top(ctx context.Context, f *os.File, s *session.Session, prefix string, every time.Duration) error {
	t, err := a.conn.Target()
	if err != nil {
		return err
	}
	name := "fairlock top: " + t.Address.String()
	pictures := screen.Open(f, screen.NewPaint(!a.noColour && screen.Colours(f)))
	defer pictures.Close()
	var lines []schema.Line
	err = inspect.Every(ctx, every, func() error {
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		title, now := name, time.Now()
		seen, err := inspect.ReadAll(looking, s, prefix)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, session.ErrDenied), errors.Is(err, session.ErrRefused):
			return err
		case err != nil:
			title += " DOES NOT ANSWER"
		default:
			lines = seen
		}
		pictures.Draw(func(w, h int) []screen.Line { return show.Picture(title, lines, now, w, h) })
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
