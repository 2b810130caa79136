package conn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Session is one ZooKeeper session, on one connection after the other. It is safe for concurrent use.
//
// Its goroutines: run makes the connections and sends heartbeats; each connection has those of its library,
// and one for each request on its way; and there are those of Go. All end with Abandon or Close.
type Session struct {
	cfg     Config
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	dialer  dialer
	out     outbox
	watches watches
	wg      sync.WaitGroup // of Go
	left    chan struct{}  // closed when run has ended
	renew   chan struct{}
	outage  driver.Outage // run's alone

	// Set before Open returns.
	pace       pace
	standalone bool

	mu   sync.Mutex
	who  identity // changes only if the session is an Observer's
	zxid int64    // the newest transaction seen on a connection before; 0 if there was none
	gone bool     // the service has no such session any more
}

// ID returns the session's number as ZooKeeper's own tools show it.
func (s *Session) ID() string { return IDOf(s.Owner()) }

// Owner returns the session's number, which is Stat.EphemeralOwner of its nodes.
func (s *Session) Owner() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.who.id
}

// IDOf returns the number of a session as ZooKeeper's own tools show it.
func IDOf(owner int64) string { return "0x" + strconv.FormatUint(uint64(owner), 16) }

// TTL returns the session timeout that the servers have given. It never changes.
func (s *Session) TTL() time.Duration { return s.pace.ttl }

// Standalone reports whether the session's one server is the only one there is, so that nothing that it
// shows is older than anything else. It is false if Config.Proof is set, or Config.Observer.
func (s *Session) Standalone() bool { return s.standalone }

// Read sends requests that change nothing, one after the other, and returns the answers in their order. If
// the connection is lost, those that were not answered are sent again. The error is not nil if an answer is
// missing; what the server says of a request is in its Answer.Err.
func (s *Session) Read(ctx context.Context, reqs ...Request) ([]Answer, error) {
	fs := make([]*flight, len(reqs))
	for i, r := range reqs {
		fs[i] = newFlight(r, true)
	}
	answers := make([]Answer, len(reqs))
	err := s.send(ctx, fs...)
	for i := 0; i < len(fs) && err == nil; i++ {
		answers[i], err = s.wait(ctx, fs[i])
	}
	if err == nil {
		return answers, nil
	}
	for _, f := range fs {
		_ = s.out.withdraw(f, err)
	}
	if unknown, ok := errors.AsType[*UnknownError](err); ok {
		err = unknown.Err // nothing was to be changed
	}
	return nil, err
}

// Once sends a request that must not be carried out twice. The error is that of the answer, an
// *UnknownError, or one that means that the request was not sent. With an error of the answer,
// Answer.Failed of a transaction is set.
func (s *Session) Once(ctx context.Context, req Request) (Answer, error) {
	return s.one(ctx, newFlight(req, false))
}

// Repeat sends a request that may be carried out more than once. If the connection is lost before the answer
// comes, Repeat sends it again and sets Answer.Repeated. The error is as in Once; it is an *UnknownError if
// one of the attempts may have been carried out, or may still be.
func (s *Session) Repeat(ctx context.Context, req Request) (Answer, error) {
	return s.one(ctx, newFlight(req, true))
}

func (s *Session) one(ctx context.Context, f *flight) (a Answer, err error) {
	if err = s.send(ctx, f); err == nil {
		if a, err = s.wait(ctx, f); err == nil {
			err = a.Err
		}
	}
	return a, err
}

// send has requests sent, unless it is too late.
func (s *Session) send(ctx context.Context, fs ...*flight) error {
	switch {
	case s.ctx.Err() != nil:
		return driver.ErrSessionOver
	case ctx.Err() != nil:
		return ended(ctx, s.dialer.failure())
	}
	s.out.add(fs...)
	return nil
}

// wait waits for the answer to a request.
func (s *Session) wait(ctx context.Context, f *flight) (Answer, error) {
	why := driver.ErrSessionOver
	select {
	case a, ok := <-f.late:
		if !ok {
			return Answer{}, f.err
		}
		return a, nil
	case <-ctx.Done():
		why = ended(ctx, s.dialer.failure())
	case <-s.ctx.Done():
	}
	if err := s.out.withdraw(f, why); err != nil {
		return Answer{}, err
	}
	if a, ok := <-f.late; ok { // it has come after all
		return a, nil
	}
	return Answer{}, f.err
}

// Watch reads a node and leaves a watch at the server, which fires once. It does not block. If the connection
// is lost before the node was read, the node is read on the next one.
//
// f is called with Armed, and then with Fired or Lost; or with Refused alone. After that, f or another
// function calls Watch again if it wants to know more. A Watch that f asks for before it reports Fired is on
// its way before any Read that this report causes, so what happened between the two watches is in what is
// read.
//
// Calls of all callbacks run one at a time for each Session, in the order in which the server has sent the
// answers and events. So f must not block, and must not call methods that take a context. It may call Watch,
// Go, Renew, Abandon and any cancel. Nothing is called after the session is over, except that one call may be
// under way.
//
// cancel is idempotent. f may be called once more while cancel runs. What was left at the server stays there
// until the node changes or the connection ends; ZooKeeper keeps one watch for each connection and node,
// however often the node is watched. A node that is not there is not watched: that would leave a watch at the
// server for ever.
func (s *Session) Watch(kind WatchKind, path string, f func(Notice)) (cancel func()) {
	if s.ctx.Err() != nil {
		return func() {}
	}
	return s.watches.add(kind, path, f)
}

// Go runs f in a goroutine that Close waits for, unless the session is over; it reports whether it does. The
// context ends with the session.
func (s *Session) Go(f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(func() { f(s.ctx) })
	return true
}

// Over is closed when the session is over: after Gone, Abandon or Close.
func (s *Session) Over() <-chan struct{} { return s.ctx.Done() }

// Renew has heartbeats sent as soon as possible. It does not wait.
func (s *Session) Renew() {
	select {
	case s.renew <- struct{}{}:
	default:
	}
}

// Abandon ends everything that the session does in this process, and leaves the session at the service to
// expire. Close may still be called after it. It does not block.
func (s *Session) Abandon() {
	s.mu.Lock() // for Go: what has begun until now, Close waits for
	defer s.mu.Unlock()
	s.cancel()
}

// Close ends the session at the service: with a nil error its nodes are gone. With an error they go when its
// TTL has passed. It waits for all goroutines of the session, also for those of Go. It is called once, and not
// from a callback or a function of Go.
func (s *Session) Close(ctx context.Context) error {
	s.Abandon()
	<-s.left
	err := s.leave(ctx)
	s.wg.Wait()
	if err != nil {
		return fmt.Errorf("zookeeper: close session %s: %w", s.ID(), err)
	}
	return nil
}
