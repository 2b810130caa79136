// Package call runs scripts on the server that takes writes, and repeats what was not answered. A
// script decides by itself whether an attempt may still be carried out.
package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/redisbackend/internal/link"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// Hook is called instead of send, for each attempt. It is for tests, which lose requests and
// replies.
type Hook func(ctx context.Context, op fault.Op, send func(ctx context.Context) error) error

// Sender sends the requests of one session.
type Sender struct {
	Line   *link.Line
	Prefix string // of all keys of the root
	Clock  driver.Clock
	Hook   Hook // nil outside of tests

	// Turns bounds the requests that are under way on the connection.
	Turns Turns

	// Elsewhere is called when an answer shows that the server has another life than the caller. It reports
	// whether another server is to be asked: this one may be a master that was replaced, or the caller's may
	// be. Nil means that it is not.
	Elsewhere func() bool

	// Over ends when no request of the session is of use any more. Its cause is the error
	// of all that are under way.
	Over context.Context //nolint:containedctx // the session's own end
}

// Turns are the requests that can be under way on one connection. Beyond 1024 the client library would
// block, and not return with the context of the request.
type Turns chan struct{}

// NewTurns returns turns for one connection.
func NewTurns() Turns { return make(Turns, 900) }

// The timeout of the first attempt, and of later ones. It doubles: a network may be slower than any
// fixed timeout.
const (
	firstTimeout = time.Second
	mostTimeout  = 10 * time.Second
)

// bytesPerSecond is a rate that any connection reaches: the timeout of an attempt grows with
// what it sends.
const bytesPerSecond = 256 << 10

// Request is a script that is run until it is answered.
type Request struct {
	Op     fault.Op
	Script *script.Script

	// Args returns the arguments of an attempt, the first of which is number 0.
	Args func(attempt int) script.Args

	// Acks is how many replicas are to have the write within the time Within. The line must be one
	// that nothing else uses: the server counts what was written on the same connection.
	Acks   int
	Within time.Duration
}

// Answer is what the last attempt of a request has returned.
type Answer struct {
	script.Reply

	// Sent is when that attempt was sent.
	Sent driver.Instant

	// Proven reports that as many replicas as wanted have the write.
	Proven bool

	node *link.Node

	// Unknown reports that an attempt before the last may have been carried out. Without an answer,
	// any attempt may have been.
	Unknown bool
}

// Do sends a request until it is answered. Its error is one of package driver, see there.
func (s *Sender) Do(ctx context.Context, r Request) (Answer, error) {
	pause := driver.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond, Spread: true}
	timeout, unknown := time.Duration(0), false
	var last error
	for attempt := 0; ; attempt++ {
		if s.Over.Err() != nil {
			return Answer{Unknown: unknown}, context.Cause(s.Over) //nolint:contextcheck // the session's
		}
		if ctx.Err() != nil {
			err := driver.ContextError(ctx)
			if last != nil {
				err = fmt.Errorf("%w: %w", err, last)
			}
			return Answer{Unknown: unknown}, err
		}
		args := r.Args(attempt)
		more := time.Duration(size(args)) * time.Second / bytesPerSecond
		timeout = min(max(firstTimeout+more, 2*timeout), mostTimeout+more)
		answer, err := s.Once(ctx, r, args, timeout)
		outcome, err := judge(err)
		unknown = unknown || outcome == unclear || outcome == stopped
		answer.Unknown = unknown
		switch outcome {
		case done:
			return answer, nil
		case incurable:
			return Answer{Unknown: unknown}, driver.Outcome(err, unknown)
		case stopped:
			return Answer{Unknown: true}, driver.OutcomeUnknown(err)
		case notDone, unclear:
		}
		last = err
		wait, stop := context.WithCancel(ctx)
		unhook := context.AfterFunc(s.Over, stop) //nolint:contextcheck // the session's
		pause.Sleep(wait, s.Clock)
		unhook()
		stop()
	}
}

func size(args script.Args) int {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	return n
}

// errNotSent wraps the error of an attempt that sent nothing.
var errNotSent = errors.New("not sent")

// Why a server is not used.
var (
	errReplica = errors.New("the server is a replica")
	errLife    = errors.New("the server has another life than the session")
)

// Once sends a request one time. Its error is that of the client library.
func (s *Sender) Once(ctx context.Context, r Request, args script.Args, timeout time.Duration) (Answer, error) {
	attempt, stop := driver.WithTimeout(ctx, s.Clock, timeout)
	defer stop()
	unhook := context.AfterFunc(s.Over, stop) //nolint:contextcheck // the session's
	defer unhook()
	late := func() bool { return ctx.Err() == nil && s.Over.Err() == nil }
	if s.Hook == nil {
		return s.send(attempt, late, r, args)
	}
	// A hook may keep the request for later; then no caller gets its answer.
	answers := make(chan Answer, 8)
	err := s.Hook(attempt, r.Op, func(ctx context.Context) error {
		a, err := s.send(ctx, func() bool { return false }, r, args)
		if err == nil {
			select {
			case answers <- a:
			default:
			}
		}
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return <-answers, nil
}

// Leave gives the server of an answer up: it has no majority, so another one may be the master.
func (s *Sender) Leave(a Answer) {
	if a.node != nil {
		s.Line.Drop(a.node, "")
	}
}

// send runs the script once, or, where the server does not know it yet, a second time with its text.
// late reports whether the attempt was not answered in its own time. Then the connection is given up,
// unless it has answered others meanwhile.
func (s *Sender) send(ctx context.Context, late func() bool, r Request, args script.Args) (Answer, error) {
	select {
	case s.Turns <- struct{}{}:
		defer func() { <-s.Turns }()
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("%w: %w", errNotSent, ctx.Err())
	}
	n, err := s.Line.Node(ctx)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	answer := Answer{Sent: s.Clock.Now(), node: n}
	err = s.run(ctx, n, r, "EVALSHA", r.Script.SHA, args, &answer)
	server := ServerError(err)
	if server != nil && server.IsNoScript() {
		answer.Sent = s.Clock.Now()
		err = s.run(ctx, n, r, "EVAL", r.Script.Text, args, &answer)
		server = ServerError(err)
	}
	switch {
	case err == nil && answer.Text(0) == script.Replica:
		err = errReplica
		s.Line.Drop(n, "")
	case err == nil && answer.Text(0) == script.Life && s.Elsewhere != nil && s.Elsewhere():
		err = errLife
		s.Line.Drop(n, "")
	case err == nil:
		n.Answered(s.Clock.Now())
	case server != nil:
		n.Answered(s.Clock.Now())
		addr, moved := server.IsMoved()
		if moved || elsewhere(server) {
			s.Line.Drop(n, addr)
		}
	case ctx.Err() == nil, late() && n.Silent(answer.Sent):
		s.Line.Drop(n, "")
	}
	return answer, err
}

func (s *Sender) run(ctx context.Context, n *link.Node, r Request, command, text string, args script.Args, a *Answer) error {
	eval := n.B().Arbitrary(command, text, "1").Keys(s.Prefix).Args(args...).Build()
	var err error
	if r.Acks == 0 {
		a.Reply, err = n.Do(ctx, eval).ToArray()
		a.Proven = err == nil
		return err //nolint:wrapcheck // judge does
	}
	// The script's own reply comes first: one that failed has written nothing that a replica could have.
	// ToPipe keeps both on the connection of the node: the client would make another one for what blocks.
	all := n.DoMulti(ctx, eval.ToPipe(), n.B().Wait().Numreplicas(int64(r.Acks)).Timeout(r.Within.Milliseconds()).Build())
	a.Reply, err = all[0].ToArray()
	if err != nil {
		return err //nolint:wrapcheck // judge does
	}
	acks, err := all[1].AsInt64()
	a.Proven = err == nil && acks >= int64(r.Acks)
	return err //nolint:wrapcheck // judge does
}

// ServerError returns the error that a server has sent, or nil.
func ServerError(err error) *rueidis.RedisError {
	var server *rueidis.RedisError
	if errors.As(err, &server) && !server.IsNil() {
		return server
	}
	return nil
}

// elsewhere reports whether another server is to be asked after an error.
func elsewhere(server *rueidis.RedisError) bool {
	return slices.Contains([]string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "UNBLOCKED"}, word(server))
}

// word is the kind of an error of the server: what it begins with.
func word(server *rueidis.RedisError) string {
	kind, _, _ := strings.Cut(server.Error(), " ")
	return kind
}

// outcome is what is known of an attempt.
type outcome uint8

const (
	done outcome = iota
	notDone
	unclear
	incurable // and not done
	stopped   // unclear, and sending it again cannot help
)

// judge returns what the error of an attempt shows. A script that fails is not rolled back, so an error
// inside of one is unclear.
//
//	not sent; not the master; the server is busy,    not done
//	loads its data, or takes no writes for now
//	no answer, or a connection that broke            unclear
//	out of memory                                    unclear: a script may delete before it cannot write
//	it waited for replicas and became one itself     unclear: the script before was carried out
//	login, privilege                                 incurable: denied; inside of a script stopped
//	anything else                                    incurable: refused; inside of a script stopped
func judge(err error) (outcome, error) {
	server := ServerError(err)
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, errReplica), errors.Is(err, errLife):
		return notDone, err
	case errors.Is(err, link.ErrClosed):
		return incurable, fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case server == nil && errors.Is(err, errNotSent):
		return notDone, err
	case server == nil:
		return unclear, err
	}
	switch word(server) {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN", "BUSY", "NOSCRIPT", "NOREPLICAS", "MISCONF":
		return notDone, err
	case "OOM", "UNBLOCKED":
		return unclear, err
	case "NOPERM", "NOAUTH", "WRONGPASS":
		err = fmt.Errorf("%w: %w", driver.ErrDenied, err)
	default:
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	if strings.Contains(server.Error(), "script:") {
		return stopped, err
	}
	return incurable, err
}

// Explain returns an error of one request as one of package driver.
func Explain(err error) error {
	_, err = judge(err)
	if err != nil && !driver.Incurable(err) {
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}
