package job

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/once"
	"github.com/fairlock/fairlock/session"
)

// callTimeout bounds the requests to the service for --once.
const callTimeout = 5 * time.Second

// CheckOnce returns a usage error if key is not valid for --once.
func CheckOnce(key string) error {
	if key == "" {
		return exit.Errorf(exit.Usage, "--once wants a key, such as the time for which the job is")
	}
	if once.CheckKey(key) != nil {
		return exit.Errorf(exit.Usage, "--once takes at most %d bytes of UTF-8", once.MaxKey)
	}
	return nil
}

// doneBefore returns a sentence about the run that has succeeded with this key; "" if
// there is none.
//
//nolint:contextcheck // the hold's own context, which is not one of ctx's
func (j *job) doneBefore(ctx context.Context, h *session.Hold) (string, error) {
	if j.Once == "" {
		return "", nil
	}
	if j.target.Address.Service == address.Memory {
		return "", exit.Errorf(exit.Usage, "--once wants a service that others see too, not mem://")
	}
	ctx, cancel := whileHeld(ctx, h)
	defer cancel()
	run, found, err := once.Find(ctx, j.s, j.Name, j.Once, j.OnceFor)
	lost := context.Cause(h.Context())
	if err != nil && lost != nil {
		err = lost
	}
	if err != nil {
		return "", fmt.Errorf("--once: %w", err)
	}
	if !found {
		return "", nil
	}
	by := ""
	if run.PID != 0 { // the record describes the newest runs only
		by = fmt.Sprintf("%s pid %d, ", run.Host, run.PID)
	}
	return fmt.Sprintf("token %d, %s%s ago", run.Token, by, age(j.clock.Wall().Sub(run.Time))), nil
}

// markDone records the key. It is called only while the lock is held, after the command
// has succeeded. If the command failed or got a signal, or the lock was lost, the next
// caller runs it again.
func (j *job) markDone(ctx context.Context, h *session.Hold) {
	if j.Once == "" {
		return
	}
	ctx, cancel := whileHeld(ctx, h)
	defer cancel()
	if err := once.Add(ctx, j.s, h, j.Once, j.OnceFor); err != nil {
		j.rep.warn("the command ran, but the key of --once %q could not be recorded, so it may run again: %s", j.Once, exit.Plain(err))
	}
}

// whileHeld returns a context that ends with the hold, or after callTimeout.
//
//nolint:contextcheck // the hold's own context, which is not one of ctx's
func whileHeld(ctx context.Context, h *session.Hold) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	stop := context.AfterFunc(h.Context(), cancel)
	return ctx, func() { stop(); cancel() }
}
