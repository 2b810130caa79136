// Package call sends batches of statements to PostgreSQL, each as one transaction and in one
// round trip, and repeats what was not carried out.
package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// Conns lends connections.
type Conns interface {
	// Acquire returns a connection and a function that returns it. It returns soon after ctx ends.
	Acquire(ctx context.Context) (conn *pgx.Conn, release func(), err error)
}

// Hook is called instead of send, for each attempt. It is for tests, which lose requests and
// replies.
type Hook func(ctx context.Context, op fault.Op, send func(ctx context.Context) error) error

// Sender sends the requests of one session.
type Sender struct {
	Conns Conns
	Clock driver.Clock
	Hook  Hook // nil outside of tests

	// Over ends when no request of the session is of use any more. Its cause is the error
	// of all that are under way.
	Over context.Context //nolint:containedctx // the session's own end

	// Explicit is set once a transaction was found that is not READ COMMITTED by default, or
	// before. Then each batch begins and ends its transaction by statements of its own.
	Explicit *atomic.Bool

	// Refused names what an operator can do about tables that are missing.
	Refused string
}

// The timeout of the first attempt, and of later ones. An attempt that is given up costs its
// connection, so the timeout is far above the time of a commit, and it doubles: a server that
// is slow is not made slower by connections that are made again and again.
const (
	firstTimeout = 2 * time.Second
	mostTimeout  = 10 * time.Second
)

// bytesPerSecond is a rate that any connection reaches: the timeout of an attempt grows with
// what it sends.
const bytesPerSecond = 256 << 10

// Request is a batch that is sent until it is answered.
type Request struct {
	Op   fault.Op
	Size int // about how many bytes it sends

	// Queue adds the statements of an attempt, the first of which is number 0.
	Queue func(b *pgx.Batch, attempt int)

	// Scan reads the answers. An error of it is that of the statement.
	Scan func(r pgx.BatchResults) error
}

// ErrNotIsolated is returned by Request.Scan for an answer that shows that its transaction is not
// READ COMMITTED: nothing was done, and Do sends the request again in one that is.
var ErrNotIsolated = errors.New("the transaction is not READ COMMITTED")

// ErrUnreadable is the reason of an answer that has come and that Request.Scan cannot read: the server
// is none that this package knows. The transaction may have been committed.
var ErrUnreadable = errors.New("the answer of the server cannot be read")

// Do sends a request until it is answered, and reports whether an attempt before the last may
// have been carried out. Its error is one of package driver, see there; if unknown is true with
// an error, any attempt may have been.
func (s *Sender) Do(ctx context.Context, r Request) (unknown bool, err error) {
	pause := driver.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond, Spread: true}
	timeout := firstTimeout + time.Duration(r.Size)*time.Second/bytesPerSecond
	var last error
	for attempt := 0; ; attempt++ {
		if s.Over.Err() != nil {
			return unknown, context.Cause(s.Over) //nolint:contextcheck // the session's
		}
		if ctx.Err() != nil {
			err := driver.ContextError(ctx)
			if last != nil {
				err = fmt.Errorf("%w: %w", err, last)
			}
			return unknown, err
		}
		err := s.attempt(ctx, r, attempt, timeout)
		outcome, err := s.judge(err)
		if noSpace(r.Op, err) {
			outcome, err = incurable, fmt.Errorf("%w: %w", driver.ErrRefused, err)
		}
		switch outcome {
		case done:
			return unknown, nil
		case incurable:
			return unknown, driver.Outcome(err, unknown)
		case unreadable:
			return true, unread(r.Op, err)
		case unclear:
			unknown = true
			timeout = min(2*timeout, mostTimeout+time.Duration(r.Size)*time.Second/bytesPerSecond)
		case notDone:
		}
		last = err
		if errors.Is(err, ErrNotIsolated) {
			continue
		}
		wait, stop := context.WithCancel(ctx)
		unhook := context.AfterFunc(s.Over, stop) //nolint:contextcheck // the session's
		pause.Sleep(wait, s.Clock)
		unhook()
		stop()
	}
}

// noSpace reports whether a request for something new has found the disk full: it is refused, because
// only an operator can make space. What deletes is sent until it is carried out.
func noSpace(op fault.Op, err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "53100" && slices.Contains([]fault.Op{fault.Open, fault.Join, fault.Update}, op)
}

// unread returns the error of a request whose answer cannot be read. The same request would have the
// same answer, so it is refused, unless that would mean that nothing was done: a Join is settled.
func unread(op fault.Op, err error) error {
	if slices.Contains([]fault.Op{fault.Leave, fault.Update, fault.Close, fault.Settle}, op) {
		return fmt.Errorf("%w: the outcome is unknown: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}

// errNotSent wraps the error of an attempt that sent nothing.
var errNotSent = errors.New("not sent")

func (s *Sender) attempt(ctx context.Context, r Request, attempt int, timeout time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	unhook := context.AfterFunc(s.Over, stop) //nolint:contextcheck // the session's
	defer unhook()
	// The batch is made now, and what answers later than the attempt is not scanned: a hook may
	// keep the request for later.
	var batch pgx.Batch
	r.Queue(&batch, attempt)
	var over atomic.Bool
	defer over.Store(true)
	scan := func(results pgx.BatchResults) error {
		if over.Load() {
			return nil
		}
		return r.Scan(results)
	}
	send := func(ctx context.Context) error {
		conn, release, err := s.Conns.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotSent, err)
		}
		defer release()
		ctx, stop := driver.WithTimeout(ctx, s.Clock, timeout)
		defer stop()
		return Batch(ctx, conn, s.Explicit.Load(), func(b *pgx.Batch) { b.QueuedQueries = append(b.QueuedQueries, batch.QueuedQueries...) }, scan)
	}
	err := error(nil)
	if s.Hook == nil {
		err = send(ctx)
	} else {
		ctx, stop := driver.WithTimeout(ctx, s.Clock, timeout) // the hook may lose the request, or the reply
		defer stop()
		err = s.Hook(ctx, r.Op, send)
	}
	if errors.Is(err, ErrNotIsolated) {
		s.Explicit.Store(true)
	}
	return err
}

// Batch runs statements in one transaction and one round trip. After an error the transaction
// was rolled back, or its outcome is unknown: see judge.
func Batch(ctx context.Context, conn *pgx.Conn, explicit bool, queue func(b *pgx.Batch), scan func(r pgx.BatchResults) error) error {
	var b pgx.Batch
	if explicit {
		b.Queue("begin isolation level read committed")
	}
	queue(&b)
	if explicit {
		b.Queue("commit")
	}
	results := conn.SendBatch(ctx, &b)
	err := error(nil)
	if explicit {
		_, err = results.Exec()
	}
	if err == nil {
		err = scan(results)
	}
	// Close reads the rest of the answer: only its end shows that the commit was carried out.
	end := results.Close()
	if err == nil || errors.Is(err, ErrNotIsolated) && end != nil {
		err = end
	}
	var server *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, ErrNotIsolated), errors.As(err, &server), pgconn.SafeToRetry(err):
	case ctx.Err() == nil && !conn.IsClosed():
		err = fmt.Errorf("%w: %w", ErrUnreadable, err) // else the connection broke
	}
	return err
}

// outcome is what is known of an attempt.
type outcome uint8

const (
	done outcome = iota
	notDone
	unclear
	incurable
	unreadable
)

// judge returns what the error of an attempt shows.
func (s *Sender) judge(err error) (outcome, error) {
	var server *pgconn.PgError
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, ErrNotIsolated):
		return notDone, err
	case errors.Is(err, ErrUnreadable):
		return unreadable, err
	case errors.Is(err, puddle.ErrClosedPool), errors.Is(err, errShut):
		return incurable, fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case errors.As(err, &server):
		return s.answered(server, err)
	case errors.Is(err, errNotSent), pgconn.SafeToRetry(err):
		return notDone, err
	}
	return unclear, err
}

// answered is judge of an error that the server has sent. The transaction was rolled back,
// unless the server was being shut down: then it may have been committed and not replicated.
func (s *Sender) answered(e *pgconn.PgError, err error) (outcome, error) {
	class := e.Code[:min(2, len(e.Code))]
	switch {
	case class == "28" || e.Code == "42501": // login, privilege
		return incurable, fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case e.Code == "57P01" || e.Code == "57P02" || class == "08": // the server or the pooler ends the connection
		return unclear, err
	case e.Code == "42P01" || e.Code == "3F000" || e.Code == "42703": // table, schema, column
		return incurable, fmt.Errorf("%w: the tables are missing or of another version: %s: %w", driver.ErrRefused, s.Refused, err)
	case class == "26": // a statement that was prepared on another connection
		return incurable, fmt.Errorf("%w: a pooler is between, and the pool prepares statements: set default_query_exec_mode=exec: %w", driver.ErrRefused, err)
	case class == "3D" || class == "22" || class == "23" || class == "21" || class == "42" || class == "54" || class == "0A":
		return incurable, fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return notDone, err
}

// Explain returns an error of one request as one of package driver.
func Explain(err error, refused string) error {
	s := Sender{Refused: refused}
	_, err = s.judge(err)
	if !driver.Incurable(err) {
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}
