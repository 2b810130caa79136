package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/top"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// The smallest terminal on which top makes sense.
const (
	topWidth  = 40
	topHeight = 6
)

const topHelp = `Show the locks whose names begin with PREFIX, or all, as a live table. The table
is read again every --interval.

  Up Down PgUp PgDn Home End   select a row (j, k, g and G do too)
  s < >                        sort by another column
  /                            filter by a part of the name or the holder
  Enter                        show the queue of the lock; Esc goes back
  a                            ask the holders to yield; again: withdraw that
  e                            evict the selected entry; in the list, the holder
  ?                            show the keys and what the colours mean
  q ^C                         quit

Before a and e, top asks whether you mean it. A yield request stands until you
withdraw it or quit. A row is marked where the oldest waiter waits long: with
"!" and yellow from 30 s on, with "!!" and red from 5 min on. Elections are not
marked: their candidates stand by.`

func (a *app) topCommand() *cobra.Command {
	every := interval(time.Second)
	cmd := &cobra.Command{
		Use:               "top [PREFIX]",
		Short:             "Show locks and queues live, ask holders to yield, evict",
		Long:              topHelp,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, ok := cmd.OutOrStdout().(*os.File)
			in, typed := cmd.InOrStdin().(*os.File)
			if !ok || !typed || !screen.IsTerminal(in) || !screen.Capable(out, topWidth, topHeight) {
				return exit.Errorf(exit.Usage, "top needs a terminal of at least %d columns and %d lines: without one, use ls or watch", topWidth, topHeight)
			}
			return a.top(cmd, firstArg(args), time.Duration(every))
		},
	}
	cmd.Flags().Var(&every, "interval", "read every `DURATION`")
	return cmd
}

// top runs the live view on a Session of its own.
func (a *app) top(cmd *cobra.Command, prefix string, every time.Duration) error {
	t, err := a.conn.Target()
	if err != nil {
		return err
	}
	lost := make(chan struct{}, 1)
	s, err := a.open(cmd, session.Options{Hooks: session.Hooks{SessionLost: func(session.Event) {
		select {
		case lost <- struct{}{}:
		default: // the event before was not read yet
		}
	}}})
	if err != nil {
		return err
	}
	defer closeQuickly(s)
	scr, err := top.OpenScreen(!a.noColour)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	return exit.Of(top.Run(cmd.Context(), scr, &topService{s: s, prefix: prefix, asked: map[string]func() error{}}, top.Options{
		Service: t.Address.String(), Interval: every, Timeout: readTimeout, SessionLost: lost,
	}))
}

// topService implements top.Service on a Session.
type topService struct {
	s      *session.Session
	prefix string

	mu    sync.Mutex
	asked map[string]func() error // withdraws the yield request for a name
}

func (v *topService) Now() time.Time { return time.Now() }

func (v *topService) Locks(ctx context.Context) ([]schema.Queue, error) {
	return inspect.ReadAll(ctx, v.s, v.prefix)
}

func (v *topService) Queue(ctx context.Context, name string) (schema.Queue, error) {
	queue, err := inspect.Read(ctx, v.s, name)
	if err != nil || len(queue.Entries) == 0 {
		return queue, err
	}
	queue.Asks, err = inspect.Asks(ctx, v.s, name)
	return queue, err
}

func (v *topService) Do(ctx context.Context, c top.Command) (string, error) {
	switch c.Do {
	case top.Ask:
		return v.ask(ctx, c.Name)
	case top.Withdraw:
		return v.withdraw(c.Name)
	case top.Evict:
		return v.evict(ctx, c)
	case top.Nothing, top.Quit, top.Read, top.SessionLost:
	}
	return "", nil
}

func (v *topService) ask(ctx context.Context, name string) (string, error) {
	withdraw, err := yield.Send(ctx, v.s, name, "")
	if err != nil {
		return "", fmt.Errorf("no holder of %q was asked: %s", name, exit.Plain(err))
	}
	v.mu.Lock()
	v.asked[name] = withdraw
	v.mu.Unlock()
	return fmt.Sprintf("asked the holders of %q to yield; press a again to withdraw the request", name), nil
}

func (v *topService) withdraw(name string) (string, error) {
	v.mu.Lock()
	withdraw := v.asked[name]
	delete(v.asked, name)
	v.mu.Unlock()
	if withdraw != nil {
		if err := withdraw(); err != nil && !errors.Is(err, session.ErrGone) {
			return "", fmt.Errorf("the yield request for %q ends when top ends: %s", name, exit.Plain(err))
		}
	}
	return fmt.Sprintf("the yield request for %q is withdrawn", name), nil
}

// evict deletes the entry that the user confirmed. No other entry has its token. An entry that
// waited then and holds by now stays: the question was another one.
func (v *topService) evict(ctx context.Context, c top.Command) (string, error) {
	queue, entries, err := inspect.Both(ctx, v.s, c.Name)
	if err != nil {
		return "", fmt.Errorf("no entry was evicted: %s", exit.Plain(err))
	}
	for i, e := range entries {
		if int64(e.Token) != c.Token {
			continue
		}
		who := screen.Printable(queue.Entries[i].Who())
		if e.State == session.Holder && !c.Holder {
			return "", fmt.Errorf("%s holds %q by now: no entry was evicted", who, c.Name)
		}
		err = v.s.Evict(ctx, e)
		switch {
		case err == nil:
			return fmt.Sprintf("evicted %s (token %d) from %q", who, c.Token, c.Name), nil
		case errors.Is(err, session.ErrGone):
		case errors.Is(err, session.ErrDenied), errors.Is(err, session.ErrRefused):
			return "", fmt.Errorf("no entry was evicted: %s", exit.Plain(err))
		default:
			return "", fmt.Errorf("it is not known whether %s was evicted: %s", who, exit.Plain(err))
		}
	}
	return "", fmt.Errorf("token %d has gone from %q by itself: no entry was evicted", c.Token, c.Name)
}
