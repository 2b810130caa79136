// Package interrupt ends a context with a signal, and returns that signal.
package interrupt

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// interrupted is why a context has ended: this process got a signal.
type interrupted struct{ signal syscall.Signal }

func (*interrupted) Error() string { return "interrupted" }

// Context returns a context that ends with a signal that ends this process, and with stop.
func Context(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, exitSignals()...)
	go func() { // ends with ctx
		select {
		case s := <-got:
			sig, _ := s.(syscall.Signal)
			cancel(&interrupted{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
	}
}

// exitSignals returns the signals that end this process. SIGHUP and SIGINT stay ignored if
// they were ignored at the start, as under nohup; see supervise.Listen.
func exitSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
}

// By returns the signal that ended a context of Context; 0 if it ended otherwise, or not.
func By(ctx context.Context) syscall.Signal {
	i, ok := errors.AsType[*interrupted](context.Cause(ctx))
	if !ok {
		return 0
	}
	return i.signal
}
