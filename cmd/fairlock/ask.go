package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

const askHelp = `Ask the holders of a lock to yield. No holder is forced to. A program that uses
the library receives the request if it subscribes (Hold.Asked). A command under
fairlock run, elect or hold follows --on-ask: with "warn", the default, it goes
on; with "stop" it stops and releases. The service does not know which holders
subscribe, so ask cannot predict whether one will yield.

The request stands until ^C, until the end of --wait, or with --until-yielded
until a holder has released. Later holders receive it too. Each grant and each
release is printed as a line, as fairlock watch does.

Exit codes: 0 if a holder has released meanwhile, 75 if none has within --wait,
130 if interrupted before, 1 if the lock has no holder.`

// askFlags are the flags of ask.
type askFlags struct {
	reason       string
	wait         span
	untilYielded bool
	out          *show.Output
}

func (a *app) askCommand() *cobra.Command {
	var k askFlags
	cmd := &cobra.Command{
		SuggestFor: []string{"yield", "revoke"},
		Use:        "ask NAME",
		Short:      "Ask the holders of a lock to yield",
		Long:       askHelp,
		Example: `  fairlock ask --reason "hotfix at noon" deploy
  fairlock ask --until-yielded -w 10m deploy && echo "it is on its way"`,
		Args:              aName,
		ValidArgsFunction: a.completeNames,
	}
	fs := cmd.Flags()
	fs.StringVar(&k.reason, "reason", "", "send this `TEXT` with it, at most 256 bytes")
	fs.VarP(&k.wait, "wait", "w", "ask for at most this `DURATION`; a bare number\nis seconds (default for ever)")
	fs.BoolVar(&k.untilYielded, "until-yielded", false, "ask until a holder has released")
	k.out = a.output(cmd, "text", show.Lines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p := &yieldRequest{askFlags: k, name: args[0], stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
		var err error
		p.s, err = a.open(cmd, session.Options{Hooks: session.Hooks{SessionLost: p.sessionLost}})
		if err != nil {
			return err
		}
		err = p.run(cmd.Context(), a)
		closeQuickly(p.s) // a request that remains ends with its session
		return exit.Of(err)
	}
	return cmd
}

// yieldRequest is what ask sends, and prints of its effect.
type yieldRequest struct {
	askFlags

	name           string
	s              *session.Session
	stdout, stderr io.Writer

	before   []schema.Queue
	yielded  bool
	lost     atomic.Bool // the request ended with its session, and must be sent again
	withdraw func() error
	progress *screen.Progress
}

// sessionLost is the hook for a session that was lost.
func (p *yieldRequest) sessionLost(session.Event) {
	p.lost.Store(true)
	fmt.Fprintln(p.stderr, "fairlock: warning: the session is lost, and the yield request with it: it is made again when the service answers")
}

// run sends the request, and prints grants and releases until the request ends.
func (p *yieldRequest) run(ctx context.Context, a *app) error {
	queue, err := inspect.Read(ctx, p.s, p.name)
	if err != nil {
		return err
	}
	if queue.Holders == 0 {
		return a.emptyQueue(ctx, p.s, p.name)
	}
	err = p.update(ctx, queue) // before a holder can release because of the request
	if err != nil {
		return err
	}
	err = p.send(ctx)
	if err != nil {
		if ctx.Err() != nil { // holders may have received it: it ends like one that was answered
			return exit.Silently(exit.Interrupted)
		}
		return err
	}
	defer func() { _ = p.withdraw() }() // if this fails, it ends with the session
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if p.wait.set {
		bounded, cancel = context.WithTimeout(ctx, p.wait.d)
	}
	defer cancel()
	read := func(ctx context.Context) (schema.Queue, error) { return inspect.Read(ctx, p.s, p.name) }
	p.progress = screen.NewProgress(p.stderr, "no holder has yielded; with --on-ask warn, the default, none will")
	err = follow(bounded, askInterval, p.progress.Before(p.stderr), read, func(now schema.Queue) error { return p.update(bounded, now) })
	p.progress.Close()
	switch {
	case p.yielded && (bounded.Err() != nil || errors.Is(err, errYielded)):
		return nil
	case ctx.Err() != nil:
		return exit.Silently(exit.Interrupted)
	case bounded.Err() != nil:
		return exit.Errorf(exit.NotAcquired, "no holder of %q has yielded within %s: %s", p.name, p.wait.d, whyNot)
	}
	return err
}

// whyNot explains why no holder has yielded, in general terms: the service does not
// know which holders subscribe.
const whyNot = "one that was started with --on-ask warn, the default, never does, nor does a program that does not subscribe (Hold.Asked)"

// errYielded ends a request of --until-yielded when a holder has released.
var errYielded = errors.New("a holder has yielded")

// askInterval is how often ask reads the queue.
const askInterval = 200 * time.Millisecond

func (p *yieldRequest) send(ctx context.Context) error {
	withdraw, err := yield.Send(ctx, p.s, p.name, p.reason)
	if err == nil {
		p.withdraw = withdraw
	}
	return err
}

// update prints what has changed since the last read, and sends the request again if it
// was lost with its session.
func (p *yieldRequest) update(ctx context.Context, now schema.Queue) error {
	if p.lost.Swap(false) {
		err := p.send(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, session.ErrDenied), errors.Is(err, session.ErrRefused):
			return err
		case err != nil: // the next read tries again
			p.lost.Store(true)
			return nil //nolint:nilerr // an outage does not end the request
		}
		fmt.Fprintln(p.stderr, "fairlock: asked again")
	}
	events := inspect.Changes(p.before, []schema.Queue{now}, time.Now())
	p.before = []schema.Queue{now}
	for _, e := range events {
		if e.Event != schema.Granted && e.Event != schema.Released {
			continue
		}
		p.yielded = p.yielded || e.Event == schema.Released
		if p.progress != nil {
			if p.yielded {
				p.progress.SetText("a holder has yielded; ^C withdraws the request")
			}
			p.progress.Clear()
		}
		if err := printEvent(p.stdout, p.out.Paint(p.stdout), p.out.Objects(), e); err != nil {
			return exit.With(exit.Failed, err) // the reader of stdout is gone
		}
	}
	if p.yielded && p.untilYielded {
		return errYielded
	}
	return nil
}
