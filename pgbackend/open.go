package pgbackend

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Open opens a Session on a pool of the caller: its calls use the connections of the pool, each
// for one round trip. Renewals and notifications have two connections of their own, with the
// configuration of the pool. The Session never closes the pool; close the Session first. opts may
// be nil.
//
// Open returns an error that wraps session.ErrInvalidOptions (nothing was sent),
// session.ErrDenied, session.ErrRefused (the tables are missing or of another version, a TTL above
// the greatest, a server whose settings keep no lock) or session.ErrUnavailable. The last comes
// when ctx ends (after 5 s if it has no deadline); during a quarantine it names the time that is
// left.
func Open(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*session.Session, error) {
	b, err := NewBackend(pool, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, b, opts)
}

// Dial is Open with a URL, or a connection string of libpq, instead of a pool: the Session makes
// three connections and closes them.
//
//	postgres://user:password@host:5432/database?sslmode=verify-full
//
// Of several hosts the one counts that is the primary.
func Dial(ctx context.Context, url string, opts *Options) (*session.Session, error) {
	b, err := DialBackend(url, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, b, opts)
}

// open gives a backend to a Session, which owns it from then on: also after an error, it is closed
// by the Session.
func open(ctx context.Context, b driver.Backend, opts *Options) (*session.Session, error) {
	var o session.Options
	if opts != nil {
		o = opts.Session
	}
	s, err := session.Engine(door.Key{}).Open(ctx, b, &o)
	if err != nil {
		return nil, fmt.Errorf("pgbackend: %w", err)
	}
	return s, nil
}

// OpenBackend is Open on a backend that ConfigBackend has returned.
func OpenBackend(ctx context.Context, b driver.Backend, opts *Options) (*session.Session, error) {
	return open(ctx, b, opts)
}

// Guard returns a query for a transaction of the caller in the same database. It returns one row
// with one boolean: whether the lock is held. If it is, the lock stays held until the transaction
// has ended: a release, an eviction and the end of the session wait for it. So what the
// transaction writes was written under the lock, whatever happens to this process meanwhile. No
// guard is stronger: the lock is checked and the data is written in one commit.
//
//	tx, err := pool.Begin(ctx)
//	…
//	query, args := pgbackend.Guard(hold)
//	var held bool
//	err = tx.QueryRow(ctx, query, args...).Scan(&held)
//	if err == nil && !held {
//		// The lock is lost. Roll back.
//	}
//
// Keep such a transaction short: others wait for it. The login needs SELECT and UPDATE on the
// table entry. Where the transaction is REPEATABLE READ or SERIALIZABLE, a hold that was lost
// after its first query is a serialization error.
//
// Guard panics for a hold on another service, because no query could be right.
func Guard(h *session.Hold) (query string, args []any) {
	inner := session.Engine(door.Key{}).Hold(h)
	refs := inner.Tie()
	s, ok := inner.Term().Driver().(*pgSession)
	if !ok || len(refs) == 0 {
		panic(fmt.Sprintf("pgbackend: Guard of a hold on %s with %d entries", inner.Engine().Info().Service, len(refs)))
	}
	queues, places, sessions := make([]string, len(refs)), make([]int64, len(refs)), make([]int64, len(refs))
	for i, ref := range refs {
		queues[i], places[i] = s.backend.layout.Queue(ref.Queue), ref.Place
		sessions[i], _ = layout.SessionOf(ref)
	}
	// After Unlock the entry may live for a moment until it is deleted, and after a loss until
	// the session is ended. Nothing may be written under it then.
	if h.Remaining() == 0 {
		sessions[0] = 0
	}
	return s.texts.Guard, []any{queues, places, sessions}
}

// Intercept returns a backend whose requests go through a hook, for tests that lose requests and
// replies.
func Intercept(_ door.Key, b driver.Backend, hook call.Hook) driver.Backend {
	b.(*backend).hook = hook //nolint:forcetypeassert // of this package
	return b
}
