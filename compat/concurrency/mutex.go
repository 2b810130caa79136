package concurrency

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	v3 "go.etcd.io/etcd/client/v3"
	etcd "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// The errors of a Mutex are those of etcd's package.
var (
	ErrLocked         = etcd.ErrLocked
	ErrSessionExpired = etcd.ErrSessionExpired
	ErrLockReleased   = etcd.ErrLockReleased
)

// released is the key of a Mutex that was unlocked.
const released = "\x00"

// Mutex is a lock. It is safe for concurrent use: a further Lock waits for Unlock, in this
// process and in all others.
type Mutex struct {
	s    *Session
	name string
	pfx  string

	busy chan struct{} // full from Lock to Unlock; holds its place for the callers of this Mutex

	mu   sync.Mutex // guards what follows
	hold *session.Hold
	key  string
	rev  int64
	hdr  *pb.ResponseHeader
}

// NewMutex returns the lock of that prefix. Its keys begin with the prefix and a slash.
func NewMutex(s *Session, pfx string) *Mutex {
	return &Mutex{s: s, name: pfx, pfx: pfx + "/", rev: -1, busy: make(chan struct{}, 1)}
}

// Lock waits until the caller holds the lock. When ctx ends first, it returns an error that is
// ctx's own, at once, and leaves nothing behind. It returns ErrSessionExpired as soon as the
// session is over. After a nil error, Unlock must follow, also if the lock is lost meanwhile.
func (m *Mutex) Lock(ctx context.Context) error {
	select {
	case m.busy <- struct{}{}:
	default:
		select {
		case m.busy <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-m.s.Done():
			return ErrSessionExpired
		}
	}
	return m.acquire(ctx, (*mutex.Mutex).Lock)
}

// TryLock is Lock without waiting: it returns ErrLocked if another request, also of this session,
// holds the lock or waits for it. It has written nothing then.
func (m *Mutex) TryLock(ctx context.Context) error {
	select {
	case m.busy <- struct{}{}:
		return m.acquire(ctx, (*mutex.Mutex).TryLock)
	default:
		return ErrLocked
	}
}

// acquire acquires the lock for a caller that has filled m.busy.
func (m *Mutex) acquire(ctx context.Context, lock func(*mutex.Mutex, context.Context) (*session.Hold, error)) (err error) {
	var h *session.Hold
	defer func() {
		if err != nil {
			if h != nil {
				_ = m.s.release(h)
			}
			<-m.busy
		}
	}()
	if _, err := m.s.clear(ctx, m.pfx, false); err != nil {
		return err
	}
	h, err = lock(mutex.New(m.s.fair, m.name), ctx)
	if err != nil {
		if errors.Is(err, session.ErrNotAcquired) && ctx.Err() == nil {
			return ErrLocked
		}
		return m.s.failed(err)
	}
	if !m.s.add(h) {
		h = nil
		return ErrSessionExpired
	}
	key, rev := keyOf(h), int64(h.Token())
	hdr, err := m.s.read(ctx, h, key, rev)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold, m.key, m.rev, m.hdr = h, key, rev, hdr
	return nil
}

// Unlock releases the lock. It does not use ctx: it waits for at most a second, and then the
// session goes on in the background. It returns ErrLockReleased if the Mutex is not locked. If the
// lock was lost, it returns ErrSessionExpired, or session.ErrLost if only the key was deleted.
func (m *Mutex) Unlock(_ context.Context) error {
	m.mu.Lock()
	h := m.hold
	if h == nil {
		m.mu.Unlock()
		return ErrLockReleased
	}
	m.hold, m.key, m.rev = nil, released, -1
	m.mu.Unlock()
	defer func() { <-m.busy }()
	return m.s.release(h)
}

// IsOwner returns a condition for a transaction, which holds only while the lock is held.
func (m *Mutex) IsOwner() v3.Cmp {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hold == nil {
		return v3.Compare(v3.CreateRevision(m.pfx), "<", 0) // no revision is below 0
	}
	return owner(m.hold)
}

// Key returns the key of the lock, "" before the first Lock.
func (m *Mutex) Key() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.key
}

// Header returns the header of an answer that came when the lock was held. Its Revision rises from
// one holder to the next, also if the other one uses etcd's package.
func (m *Mutex) Header() *pb.ResponseHeader {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hdr
}

// Hold returns the hold of the lock, nil if it is not locked: its context ends at a loss, and its
// token is the fencing token. Release the lock with Unlock of the Mutex.
func (m *Mutex) Hold() *session.Hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hold
}

// owner is the one condition that decides whether a hold of one lock is held.
func owner(h *session.Hold) v3.Cmp {
	guard := etcdbackend.Guard(h)
	return guard[len(guard)-1]
}

// keyOf returns the key of a hold of one lock.
func keyOf(h *session.Hold) string {
	guard := etcdbackend.Guard(h)
	return string(guard[0].KeyBytes())
}

// locker is a Mutex as a sync.Locker.
type locker struct{ m *Mutex }

// NewLocker returns a sync.Locker on a new Mutex. Lock panics if it cannot lock, and Unlock if the
// lock is not locked. A lock that was lost does not make Unlock panic.
func NewLocker(s *Session, pfx string) sync.Locker { return locker{NewMutex(s, pfx)} }

// Lock implements sync.Locker.
func (l locker) Lock() {
	if err := l.m.Lock(l.m.s.client.Ctx()); err != nil {
		panic(err)
	}
}

// Unlock implements sync.Locker.
func (l locker) Unlock() {
	err := l.m.Unlock(l.m.s.client.Ctx())
	if errors.Is(err, ErrLockReleased) {
		panic(err)
	}
}
