package job

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

// Hold holds a lock until a signal comes, or until stdin ends if that can end. It writes the grant to stdout, as JSON. Its error has the exit code.
func Hold(ctx context.Context, conn *connect.Flags, std Std, o Options) error {
	j, err := prepare(conn, std, o)
	if err != nil {
		return err
	}
	defer j.close()
	asked := j.clock.Now()
	h, err := j.acquire(ctx)
	if err != nil {
		return j.failed(err)
	}
	j.granted(h)
	err = j.writeToken(h)
	if err != nil {
		_ = j.release(h) // err is what the user must know
		return exit.With(exit.Software, err)
	}
	j.rep.flush() // stdout may be the same terminal
	return j.keep(h, j.grant(h, j.clock.Now().Sub(asked)))
}

// keep writes the grant, holds the lock until that is to end, and releases it.
func (j *job) keep(h *session.Hold, g schema.Grant) error {
	written := make(chan error, 1)
	go func() { written <- show.Line(j.std.Out, g) }() // ends with this process if nothing reads stdout
	yielded, err := j.waitForEnd(h, written)
	lost := j.release(h)
	switch {
	case err != nil:
		return err
	case lost != nil:
		return exit.With(exit.Lost, lost)
	case yielded:
		j.rep.warn("was asked to yield, and released the lock")
		return exit.Silently(exit.Yielded)
	}
	return nil
}

// waitForEnd waits until the hold is to end. It returns whether that is because of a yield
// request, or an error if the grant could not be written or the lock was lost.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (j *job) waitForEnd(h *session.Hold, written <-chan error) (yielded bool, err error) {
	ctx, stop := j.interruptible(h.Context())
	ctx, stopListening := j.untilAsked(ctx, h)
	var ended chan struct{}
	if canEnd(j.std.In) {
		ended = make(chan struct{})
		go func() { // ends with stdin, or with this process
			defer close(ended)
			_, _ = io.Copy(io.Discard, j.std.In) // an error counts as the end
		}()
	}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case err = <-written:
			written = nil
			if err == nil {
				continue
			}
		case <-ended:
			j.rep.info("stdin has ended, and the lock is released")
		case <-ctx.Done():
		case <-tick.C:
			if h.Remaining() > 0 {
				continue
			}
		}
		break
	}
	yielded = stopListening()
	_ = stop() // a signal is the usual end
	if written != nil {
		select { // stdin may have ended at once
		case err = <-written:
		case <-time.After(flushTimeout):
		}
	}
	if err != nil {
		return yielded, exit.With(exit.Software, err)
	}
	err = context.Cause(h.Context())
	if err == nil && h.Remaining() == 0 {
		err = session.ErrLost
	}
	return yielded, exit.With(exit.Lost, err)
}

// canEnd reports whether the end of a file is news: a process that had the other side of a
// pipe or of a socket has ended. /dev/null, which is the stdin of services, of containers and
// of jobs in the background, was never anything else.
func canEnd(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}

// checkInterval is how often waitForEnd reads the clock: timers stop while a machine
// sleeps.
const checkInterval = 500 * time.Millisecond

// grant describes a hold.
func (j *job) grant(h *session.Hold, waited time.Duration) schema.Grant {
	g := schema.NewGrant()
	g.Name, g.Kind, g.Token, g.Key = j.Name, j.kind(), int64(h.Token()), session.Engine(door.Key{}).Hold(h).Tie()[0].Key
	g.Session, g.Time = h.SessionID(), schema.At(j.clock.Wall())
	g.Waited, g.TTL = schema.Seconds(waited), schema.Seconds(j.s.Options().TTL)
	slot := h.Slot()
	if slot >= 0 {
		g.Slot = &slot
	}
	return g
}
