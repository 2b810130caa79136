package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// answer is what came of a request on one link.
type answer[T any] struct {
	v   T
	err error
}

// abandonedError is the error of a request whose context ended before its answer
// came. The answer comes later, or the link's end.
type abandonedError[T any] struct {
	cause error
	late  <-chan answer[T]
}

func (e *abandonedError[T]) Error() string { return e.cause.Error() }
func (e *abandonedError[T]) Unwrap() error { return e.cause }

// send makes one request on one link. The library knows no contexts, so the
// request has a goroutine of its own, which ends with the answer or the link.
func send[T any](l *link, f func(*zk.Conn) (T, error)) <-chan answer[T] {
	answers := make(chan answer[T], 1)
	if !l.begin() {
		answers <- answer[T]{err: zk.ErrConnectionClosed}
		return answers
	}
	go func() {
		defer l.calls.Done()
		v, err := f(l.conn)
		answers <- answer[T]{v, err}
	}()
	return answers
}

// once makes one request of a session on one link. It has no timeout of its own:
// a link on which nothing comes back is taken down by its session, see
// tap.silence.
func once[T any](ctx context.Context, s *sess, l *link, f func(*zk.Conn) (T, error)) (T, error) {
	var zero T
	answers := send(l, f)
	var a answer[T]
	select {
	case a = <-answers:
	case <-ctx.Done():
		return zero, &abandonedError[T]{cause: context.Cause(ctx), late: answers}
	case <-s.ctx.Done():
		return zero, &abandonedError[T]{cause: driver.ErrSessionOver, late: answers}
	}
	s.heed(l, a.err)
	return a.v, a.err
}

// heed draws from an answer what it says of the session and of the link.
func (s *sess) heed(l *link, err error) outcome {
	out := outcomeOf(err)
	switch out {
	case expired:
		s.expired(err)
	case lost:
		l.fail(err)
	case done, refused:
	}
	return out
}

// onLink makes one request on a link that no session uses yet.
func onLink[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error)) (T, error) {
	select {
	case a := <-send(l, f):
		return a.v, a.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

// patience is how long a link may be silent while an answer is due, and how
// long one attempt to end a session takes.
func (s *sess) patience() time.Duration { return max(s.ttl/4, leastDial) }

// ask makes a request that may be carried out more than once, on one link after
// another, until it is answered or ctx ends. It calls unknown after each that
// was sent and not answered.
func ask[T any](ctx context.Context, s *sess, f func(*zk.Conn) (T, error), unknown ...func()) (T, error) {
	return askLarge(ctx, s, &large{}, f, unknown...)
}

// askLarge is ask for a request that may be too long for the servers.
func askLarge[T any](ctx context.Context, s *sess, size *large, f func(*zk.Conn) (T, error), unknown ...func()) (T, error) {
	var zero T
	if err := size.check(); err != nil {
		return zero, err
	}
	for n := 0; ; n++ {
		l, err := s.link(ctx)
		if err != nil {
			return zero, err
		}
		v, err := once(ctx, s, l, f)
		out := outcomeOf(err)
		if out == lost {
			for _, u := range unknown {
				u()
			}
		}
		switch {
		case out == lost && ctx.Err() != nil:
			return zero, context.Cause(ctx)
		case out == expired:
			return zero, fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
		case errors.Is(err, driver.ErrSessionOver):
			return zero, driver.ErrSessionOver
		case out == lost:
			if err := errors.Join(tooBig(l), size.lost(l)); err != nil {
				return zero, err
			}
		case hasCode(err, codeThrottled):
			driver.Sleep(ctx, s.b.clock, 10*time.Millisecond<<min(n, 6))
		default:
			return v, err
		}
	}
}

// closedByServer reports whether the link was lost because the other side closed
// the connection.
func (l *link) closedByServer() bool {
	select {
	case <-l.down:
	default:
		return false
	}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(l.cause, err) {
			return true
		}
	}
	return false
}

// tooBig is the error of a request that broke its link by a reply that nobody
// would read; nil if it did not.
func tooBig(l *link) error {
	select {
	case <-l.down:
		if big, ok := errors.AsType[*bigReplyError](l.cause); ok {
			return fmt.Errorf("%w: %w", driver.ErrRefused, big)
		}
	default:
	}
	return nil
}

// each calls f for every item, a few at a time, and returns the first error.
func each[T any](ctx context.Context, items []T, f func(context.Context, int) error) error {
	const atOnce = 16
	switch len(items) {
	case 0:
		return nil
	case 1:
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		slots = make(chan struct{}, atOnce)
		errs  = make(chan error, len(items))
	)
	for i := range items {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			err := f(ctx, i)
			if err != nil {
				cancel(err)
			}
			errs <- err
		}()
	}
	var first error
	for range items {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
