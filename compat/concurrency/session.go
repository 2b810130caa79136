package concurrency

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	v3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
)

const defaultSessionTTL = 60

// Session is a lease that is kept alive. It never gets another one: when the lease is lost,
// the Session is over, and the program makes a new one, as with etcd's package. A Session is
// safe for concurrent use.
type Session struct {
	client  *v3.Client
	opts    sessionOptions
	backend *backend
	fair    *session.Session
	id      v3.LeaseID

	ctx    context.Context //nolint:containedctx // Ctx returns it
	cancel context.CancelFunc
	donec  chan struct{} // closed when ctx has ended
	once   sync.Once     // of the end
	closed chan struct{} // closed when nothing of the Session is left in this process

	mu    sync.Mutex
	over  bool                       // no hold is added any more
	holds map[*session.Hold]struct{} // those that the Session ends, see end

	// leads are the leaderships of the Session by the prefix of the election, which its Elections
	// share. One that is over may still be there.
	leads map[string]*candidacy

	// cleared are the prefixes where nothing is left of an earlier process. It is for a lease that
	// was taken over. clearing guards it, and is held while the service is asked.
	clearing sync.Mutex
	cleared  map[string]bool
}

// NewSession opens a session with a lease of its own, or takes one over (WithLease). It gives up
// after 5 s without an answer, unless the context has a deadline. The client must be an ordinary
// one: package etcdbackend lists the requirements.
func NewSession(client *v3.Client, opts ...SessionOption) (*Session, error) {
	o := sessionOptions{ttl: defaultSessionTTL, ctx: client.Ctx()}
	for _, opt := range opts {
		opt(&o, client.GetLogger())
	}
	if o.leaseID != v3.NoLease {
		resp, err := client.TimeToLive(o.ctx, o.leaseID)
		if err != nil {
			return nil, err
		}
		if resp.TTL <= 0 {
			return nil, rpctypes.ErrLeaseNotFound
		}
		o.ttl = int(resp.GrantedTTL)
	}
	inner, err := etcdbackend.NewBackend(client, &etcdbackend.Options{Layout: etcdbackend.LayoutConcurrency, Lease: o.leaseID})
	if err != nil {
		return nil, err
	}
	b := &backend{Backend: inner}
	ttl := max(time.Duration(o.ttl)*time.Second, inner.Info().MinTTL)
	fair, err := session.Engine(door.Key{}).Open(o.ctx, b, &session.Options{TTL: ttl})
	if err != nil {
		return nil, err
	}
	term, err := session.Engine(door.Key{}).Of(fair).Live(o.ctx)
	if err != nil {
		_ = fair.Close()
		return nil, fmt.Errorf("%w: %w", ErrSessionExpired, err)
	}
	id, err := strconv.ParseUint(term.ID(), 16, 64)
	if err != nil {
		panic(fmt.Sprintf("concurrency: a lease has the name %q", term.ID()))
	}
	s := &Session{
		client: client, opts: o, backend: b, fair: fair, id: v3.LeaseID(id), //nolint:gosec // lease ids are opaque bits
		donec: make(chan struct{}), closed: make(chan struct{}),
		holds: map[*session.Hold]struct{}{}, leads: map[string]*candidacy{}, cleared: map[string]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(o.ctx)
	context.AfterFunc(term.Context(), s.end) // the lease is lost
	context.AfterFunc(s.ctx, s.end)          // the program has ended its context, or the client
	return s, nil
}

// end ends the Session in this process, once, and returns when nothing of it is left there. The
// lease stays, with all that is on it.
func (s *Session) end() {
	s.once.Do(func() {
		defer close(s.closed)
		s.backend.over.Store(true)
		s.cancel()
		close(s.donec)
		s.mu.Lock()
		s.over = true
		holds := s.holds
		s.holds = nil
		s.mu.Unlock()
		for h := range holds {
			_ = h.Unlock() // it sends nothing, and fair.Close does not wait for the caller's Unlock
		}
		_ = s.fair.Close()
	})
	<-s.closed
}

// add makes a hold one of the Session's. It returns false, and has ended the hold, if the Session
// is over.
func (s *Session) add(h *session.Hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		_ = h.Unlock()
		return false
	}
	s.holds[h] = struct{}{}
	return true
}

// release unlocks a hold of the Session. It returns nil if the session finishes the release.
func (s *Session) release(h *session.Hold) error {
	s.mu.Lock()
	delete(s.holds, h)
	s.mu.Unlock()
	err := h.Unlock()
	switch {
	case s.backend.over.Load(): // the key may still be there
		return ErrSessionExpired
	case errors.Is(err, session.ErrReleasePending):
		return nil
	}
	return err //nolint:wrapcheck // it names the lock
}

// failed returns the error of a request, in the words of etcd's package.
func (s *Session) failed(err error) error {
	if errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrLost) {
		return ErrSessionExpired
	}
	return err
}

// Client is the etcd client that is attached to the session.
func (s *Session) Client() *v3.Client { return s.client }

// Lease is the lease of the session. It has the keys of all its locks and elections, and those
// that the program puts on it.
func (s *Session) Lease() v3.LeaseID { return s.id }

// Ctx returns a context that ends when the session is over: when the lease could expire at the
// service before a renewal is confirmed, when it was revoked, after Orphan and Close, and with
// the context of the session. It ends before another client can hold a lock of the session.
func (s *Session) Ctx() context.Context { return s.ctx }

// Done returns a channel that is closed when Ctx has ended.
func (s *Session) Done() <-chan struct{} { return s.donec }

// Orphan ends the session. The lease is not renewed any more, and its keys stay until it expires.
func (s *Session) Orphan() { s.end() }

// Close ends the session and revokes the lease, which releases all locks at once. It waits for no
// holder: stop the work first.
func (s *Session) Close() error {
	s.end()
	ctx, cancel := context.WithTimeout(s.opts.ctx, time.Duration(s.opts.ttl)*time.Second)
	defer cancel()
	_, err := s.client.Revoke(ctx, s.id)
	return err
}

// read returns the header of an answer that came while the hold lasted. It returns
// ErrSessionExpired if the hold ends meanwhile.
func (s *Session) read(ctx context.Context, h *session.Hold, key string, rev int64) (*pb.ResponseHeader, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.Context(), cancel)() //nolint:contextcheck // it ends both
	resp, err := s.client.Get(ctx, key, v3.WithKeysOnly())
	switch {
	case h.Context().Err() != nil:
		return nil, ErrSessionExpired
	case err != nil:
		return nil, err
	case len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != rev:
		return nil, ErrSessionExpired
	}
	return resp.Header, nil
}

// clear deletes the keys that an earlier process has left on a lease that was taken over, so that
// the Session does not wait for them for ever. If keepFirst is set and the first key of the queue
// is such a key, it is returned, and stays.
func (s *Session) clear(ctx context.Context, pfx string, keepFirst bool) (*mvccpb.KeyValue, error) {
	if s.opts.leaseID == v3.NoLease {
		return nil, nil
	}
	s.clearing.Lock()
	defer s.clearing.Unlock()
	if s.cleared[pfx] {
		return nil, nil
	}
	// An answer without values shows no leases.
	resp, err := s.client.Get(ctx, pfx, v3.WithPrefix(), v3.WithSort(v3.SortByCreateRevision, v3.SortAscend))
	if err != nil {
		return nil, err
	}
	var first *mvccpb.KeyValue
	for i, kv := range resp.Kvs {
		if v3.LeaseID(kv.Lease) != s.id {
			continue
		}
		if i == 0 && keepFirst {
			first = kv
			continue
		}
		if err := s.remove(ctx, string(kv.Key), kv.CreateRevision); err != nil {
			return nil, err
		}
	}
	s.cleared[pfx] = true
	return first, nil
}

// remove deletes a key, unless it is another one by now.
func (s *Session) remove(ctx context.Context, key string, rev int64) error {
	_, err := s.client.Txn(ctx).If(v3.Compare(v3.CreateRevision(key), "=", rev)).Then(v3.OpDelete(key)).Commit()
	return err
}

type sessionOptions struct {
	ttl     int
	leaseID v3.LeaseID
	ctx     context.Context //nolint:containedctx // WithContext sets it
}

// SessionOption configures a Session.
type SessionOption func(*sessionOptions, *zap.Logger)

// WithTTL sets the TTL of the lease in seconds, at least 2. Without it, and for a value that is
// not positive, it is 60.
func WithTTL(ttl int) SessionOption {
	return func(o *sessionOptions, lg *zap.Logger) {
		if ttl > 0 {
			o.ttl = ttl
			return
		}
		lg.Warn("WithTTL(): TTL should be > 0, preserving current TTL", zap.Int("current-session-ttl", o.ttl))
	}
}

// WithLease takes over a lease that exists, for example after a restart. An election that an
// earlier process leads with it goes on, see Election.Campaign. All else that it has left in a
// queue is deleted when the Session first uses that queue.
func WithLease(leaseID v3.LeaseID) SessionOption {
	return func(o *sessionOptions, _ *zap.Logger) { o.leaseID = leaseID }
}

// WithContext sets a context in place of that of the client. When it ends, the session is over,
// and its lease is left to expire.
func WithContext(ctx context.Context) SessionOption {
	return func(o *sessionOptions, _ *zap.Logger) { o.ctx = ctx }
}
