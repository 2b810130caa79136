package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Session is one ZooKeeper session, on one connection after the other. It is safe for concurrent use.
//
// It has these goroutines: run, which makes connections and sends heartbeats; those of each connection's library;
// one for each request that the library has; and those of Go. All end after Abandon or Close.
//
// A session is over in this process when ctx has ended. How it ends:
//
//	                    what has happened                          Gone is called   at the service
//	Abandon             the caller gives up the session            no               it expires
//	Close               the caller ends it                         no               it has ended, if the error is nil
//	expired             a server has no such session any more      yes              it has ended
//	end, otherwise      its renewals prove nothing any more        yes              it expires, or Close ends it
type Session struct {
	cfg Config

	// ctx ends with the session. It is a field because it is the session's own life, not that of a call.
	ctx    context.Context
	cancel context.CancelFunc

	dialer  dialer
	out     outbox
	watches watches

	// wg counts the goroutines of Go, ended is closed when run has ended.
	wg    sync.WaitGroup
	ended chan struct{}

	// renew has room for one wish: more than one at a time is the same.
	renew chan struct{}

	// outage is used by run only.
	outage driver.Outage

	// pace and standalone are set before Open returns, and never changed.
	pace       pace
	standalone bool

	mu sync.Mutex

	// self is what a handshake shows to continue the session. It changes only if the session is an
	// Observer's.
	self identity

	// zxid is the newest transaction that a lost connection has shown; 0 before the session has lost one.
	// It only rises, but for an Observer that asks for a new session.
	zxid int64

	// gone: the service has no such session any more, so there is nothing to end. Never reset.
	gone bool
}

// ID returns the session's number as ZooKeeper's own tools show it.
func (s *Session) ID() string { return IDOf(s.Owner()) }

// Owner returns the session's number, which is Stat.EphemeralOwner of its nodes.
func (s *Session) Owner() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.self.id
}

// IDOf returns the number of a session as ZooKeeper's own tools show it.
func IDOf(owner int64) string { return "0x" + strconv.FormatUint(uint64(owner), 16) }

// TTL returns the session timeout that the servers have granted. It never changes.
func (s *Session) TTL() time.Duration { return s.pace.ttl }

// Standalone reports whether the session's server is the only one of the service, so that its answers are never
// out of date. It is false if Config.Proof or Config.Observer is set.
func (s *Session) Standalone() bool { return s.standalone }

// Read sends requests that change nothing, with no other request between them, and returns the answers in their
// order. If the connection is lost, those that were not answered are sent again. The error is not nil if an answer
// is missing. The server's error for one request is in its Answer.Err.
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

// Once sends a request that must not be carried out twice. The error is the server's, or an *UnknownError, or one
// that means that the request was not sent. With the server's error for a transaction, Answer.Failed is set.
func (s *Session) Once(ctx context.Context, req Request) (Answer, error) {
	return s.one(ctx, newFlight(req, false))
}

// Repeat sends a request that may be carried out more than once. If the connection is lost before the answer
// comes, Repeat sends it again and sets Answer.Repeated. The error is as in Once; it is an *UnknownError if
// one of the attempts may have been carried out, or may still be.
func (s *Session) Repeat(ctx context.Context, req Request) (Answer, error) {
	return s.one(ctx, newFlight(req, true))
}

func (s *Session) one(ctx context.Context, f *flight) (Answer, error) {
	if err := s.send(ctx, f); err != nil {
		return Answer{}, err
	}
	a, err := s.wait(ctx, f)
	if err != nil {
		return a, err
	}
	return a, a.Err
}

// send queues requests, unless the session is over or ctx has ended.
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

// wait blocks until a request has its answer, or ctx or the session ends.
func (s *Session) wait(ctx context.Context, f *flight) (Answer, error) {
	why := driver.ErrSessionOver
	select {
	case r := <-f.reply:
		return r.Answer, r.err
	case <-ctx.Done():
		why = ended(ctx, s.dialer.failure())
	case <-s.ctx.Done():
	}
	if err := s.out.withdraw(f, why); err != nil {
		return Answer{}, err
	}
	r := <-f.reply // it has come after all
	return r.Answer, r.err
}

// Watch reads a node and leaves a watch at the server, which fires once. It does not block. If the connection
// is lost before the node was read, Watch reads it on the next one.
//
// f is called with Armed, and later with Fired or Lost; or with Refused alone. To learn of later changes, the
// caller calls Watch again. If f does so before it reports Fired to its own caller, the new watch is sent before
// any Read that the report causes. So that Read shows all that happened between the two watches.
//
// The callbacks of a Session run one at a time, in the order in which the server has sent the answers and events.
// So f must not block, and must not call methods that take a context. It may call Watch, Go, Renew, Abandon and
// any cancel. No callback begins after the session is over; one may still be running.
//
// cancel is idempotent. f may be called once more while cancel runs. The watch at the server stays until the node
// changes or the connection ends; a server keeps one watch for each connection and node, however often the node
// is watched. A node that is not there is not watched, because the server would keep that watch for ever.
func (s *Session) Watch(kind WatchKind, path string, f func(Notice)) (cancel func()) {
	if s.ctx.Err() != nil {
		return func() {}
	}
	return s.watches.add(kind, path, f)
}

// Go runs f in a goroutine that Close waits for. It returns false, and does nothing, if the session is over. The
// context of f ends with the session.
func (s *Session) Go(f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(func() { f(s.ctx) })
	return true
}

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
	s.mu.Lock() // so that after this Go starts nothing, and Close can wait
	defer s.mu.Unlock()
	s.cancel()
}

// Close ends the session at the service. After a nil error its nodes are gone; after another one they go when the
// TTL has passed. It waits for all goroutines of the session, also for those of Go. It is called once, and not
// from a callback or a function of Go.
func (s *Session) Close(ctx context.Context) error {
	s.Abandon()
	<-s.ended
	err := s.leave(ctx)
	s.wg.Wait()
	if err != nil {
		return fmt.Errorf("zookeeper: close session %s: %w", s.ID(), err)
	}
	return nil
}

// end ends the session in this process, because of err, and reports that once. The service may still have it.
func (s *Session) end(err error) error {
	s.mu.Lock()
	over := s.ctx.Err() != nil
	s.cancel()
	s.mu.Unlock()
	if !over {
		s.cfg.Gone(err)
	}
	return err
}

// expired is called when a server has answered that the service has no such session any more, or when an
// Observer had no connection for its TTL: servers that were wiped or restored refuse a client that has seen more
// than they have, before they examine its session. An Observer then asks for a new session, and shows no
// transaction. No read goes back: that session is a transaction itself, and a Sync follows.
func (s *Session) expired(err error) {
	s.mu.Lock()
	s.gone = !s.cfg.Observer
	if s.cfg.Observer {
		s.self, s.zxid = identity{}, 0
	}
	s.mu.Unlock()
	if !s.cfg.Observer {
		_ = s.end(err)
	}
}

// leave ends the session at the service. A nil error means that it has ended there. It makes connections of its own,
// one server after the other: the session has none any more, and one that it had may be silent.
func (s *Session) leave(ctx context.Context) error {
	s.mu.Lock()
	self, gone := s.self, s.gone
	s.mu.Unlock()
	if gone {
		return nil
	}
	err := s.dialer.each(ctx, s.pace.ttl, s.longestPause(), func(_ context.Context, socket net.Conn, _ string) error {
		err := endSession(socket, self, s.pace.ttl, s.cfg.Auth())
		cut(socket)
		if errors.Is(err, errExpired) {
			err = finalError{err}
		}
		return err
	})
	if err != nil && !errors.Is(err, errExpired) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return nil
}
