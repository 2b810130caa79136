package faircertmagic

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Storage is a certmagic.Storage with the locks of Fairlock. Assets are kept by the storage
// inside, which all processes share; its own locks are not used.
//
// certmagic locks a name while it obtains or renews the certificate of that name, with all
// retries. It does not stop an order when the lock is lost. So Storage protects the assets:
// after the loss, and until Unlock, it refuses to store or delete the certificate of that name
// and its challenges, which another process may be writing now. The attempt fails by that. The
// next one queues again, see RenewLockLease.
//
// The context of such a write ends at the loss, and carries the hold: a storage that checks
// tokens gets the token by session.TokenFrom. Storage cannot stop a write that has been sent.
//
// A Storage is safe for concurrent use. It does not have other methods of the storage inside.
type Storage struct {
	certmagic.Storage
	named *mutex.Named

	mu    sync.Mutex
	locks map[string]*lock // by their names, from the end of Lock to the begin of Unlock
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// lock is a lock that certmagic has.
type lock struct {
	site     string // the part of keys that names the certificate; "" if the lock is not for one
	reported bool   // RenewLockLease has returned the loss; Storage.mu guards it
}

const (
	// issue begins the names of the locks for obtaining and renewing. The name of the
	// certificate follows.
	issue = "issue_cert_"

	// challenges is the folder of the challenges at an authority. The rest of a key is the
	// name of the certificate and ".json".
	challenges = "challenge_tokens"
)

// NewStorage returns a Storage that takes, for each lock of certmagic, the Mutex that lock
// returns. The names are "issue_cert_example.com" and the like.
//
//	faircertmagic.NewStorage(storage, func(name string) *mutex.Mutex {
//		return mutex.New(s, "certs/"+name)
//	})
//
// mutex.Options.Reentrant has no effect: see mutex.NewNamed.
func NewStorage(storage certmagic.Storage, lockOf func(name string) *mutex.Mutex) *Storage {
	return &Storage{Storage: storage, named: mutex.NewNamed(lockOf), locks: map[string]*lock{}}
}

// Lock implements certmagic.Locker. It waits in the queue of the lock, as mutex.Named.Lock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	if err := s.named.Lock(ctx, name); err != nil {
		return err
	}
	s.locked(name)
	return nil
}

// TryLock implements certmagic.TryLocker. It returns false if this or another process has the
// lock, or queues for it.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.named.TryLock(ctx, name)
	if errors.Is(err, session.ErrNotAcquired) && ctx.Err() == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.locked(name)
	return true, nil
}

// locked notes a lock. It is called in the turn of the caller.
func (s *Storage) locked(name string) {
	l := &lock{}
	subject, ok := strings.CutPrefix(name, issue)
	if ok {
		l.site = certmagic.StorageKeys.Safe(subject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[name] = l
}

// Unlock implements certmagic.Locker. It returns nil if the lock was lost, because nothing is
// left to release. It never releases the lock of a later Lock: that waits for this Unlock, also
// after a loss. It returns session.ErrUnlocked if the name is not locked.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	delete(s.locks, name)
	s.mu.Unlock()
	err := s.named.Unlock(ctx, name)
	if errors.Is(err, session.ErrLost) {
		return nil
	}
	return err
}

// RenewLockLease implements certmagic.LockLeaseRenewer. It returns nil if the lock is held. It
// sends nothing then: a lock of Fairlock lasts as long as its session, whatever the duration.
//
// Its first call after a loss returns session.ErrLost: the caller must not go on with its work.
// A further call means that the caller begins anew. It waits for the lock as Lock, and returns
// its errors. certmagic calls RenewLockLease at the begin of each attempt, and after it looks
// for the certificate of another process. It goes on with its attempts after any error, for 30
// days, so an error of each call would keep this process from the certificate for so long.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	h, ok := s.named.Hold(name)
	if !ok {
		return fmt.Errorf("faircertmagic: renew lock %q: %w", name, session.ErrUnlocked)
	}
	if h.Remaining() > 0 {
		return nil
	}
	s.mu.Lock()
	l := s.locks[name]
	first := l != nil && !l.reported
	if first {
		l.reported = true
	}
	s.mu.Unlock()
	if first {
		return lostBy(h) //nolint:contextcheck // it asks how the hold has ended
	}
	if err := s.named.Relock(ctx, name); err != nil {
		return err
	}
	s.locked(name)
	return nil
}

// lostBy returns the loss of a hold that has no time left.
func lostBy(h *session.Hold) error {
	<-h.Context().Done() // it ends with Remaining, at the latest
	return context.Cause(h.Context())
}

// Store implements certmagic.Storage. It returns session.ErrLost, and stores nothing, for what
// a lost lock protected.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	return s.write(ctx, key, func(ctx context.Context) error { return s.Storage.Store(ctx, key, value) })
}

// Delete implements certmagic.Storage. It deletes nothing of what a lost lock protected. It
// returns session.ErrLost then, but nil for a challenge: after an error certmagic would keep
// the port of the challenge open.
func (s *Storage) Delete(ctx context.Context, key string) error {
	err := s.write(ctx, key, func(ctx context.Context) error { return s.Storage.Delete(ctx, key) })
	if path.Base(path.Dir(key)) == challenges && errors.Is(err, session.ErrLost) {
		return nil
	}
	return err
}

// write calls fn, within the hold of the lock that protects the key, if there is one.
func (s *Storage) write(ctx context.Context, key string, fn func(context.Context) error) error {
	h, ok := s.protects(key)
	if !ok {
		return fn(ctx)
	}
	return recipe.Within(ctx, h.Context(), h, func(ctx context.Context, h *session.Hold) error {
		if h.Remaining() > 0 {
			return fn(ctx)
		}
		return lostBy(h) //nolint:contextcheck // it asks how the hold has ended
	})
}

// protects returns the hold of the lock that protects a key, also if it was lost.
func (s *Storage) protects(key string) (h *session.Hold, ok bool) {
	site := path.Base(path.Dir(key))
	if site == challenges {
		site = strings.TrimSuffix(path.Base(key), ".json")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.locks {
		if l.site != "" && l.site == site {
			return s.named.Hold(name)
		}
	}
	return nil, false
}
