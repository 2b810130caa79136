package drive

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// A Recipe is a recipe of a lock. The zero value is the mutex, of either side; only our side has
// the others.
type Recipe struct {
	Kind  RecipeKind
	Limit int64 // of a semaphore
}

// A RecipeKind is a recipe of this library.
type RecipeKind string

// The kinds of recipes.
const (
	Mutex     RecipeKind = ""
	Election  RecipeKind = "election"
	ReadLock  RecipeKind = "read lock"
	WriteLock RecipeKind = "write lock"
	Permit    RecipeKind = "permit"
)

// lock acquires. A later entry has a higher place; the place of a mutex is unknown, 0.
func (r Recipe) lock(ctx context.Context, c stand.Contender, name string) (unlock func() error, place int64, err error) {
	if r.Kind == Mutex {
		unlock, err := c.Lock(ctx, name)
		return unlock, 0, err
	}
	h, err := r.acquire(ctx, stand.Session(c), name)
	if err != nil {
		return nil, 0, err
	}
	return stand.Unlock(h), int64(h.Token()), nil
}

func (r Recipe) acquire(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
	switch r.Kind {
	case Election:
		return election.New(s, name).Campaign(ctx, "candidate")
	case ReadLock:
		return rwlock.New(s, name).RLock(ctx)
	case WriteLock:
		return rwlock.New(s, name).Lock(ctx)
	case Permit:
		return semaphore.New(s, name, r.Limit).Acquire(ctx, 1)
	default:
		return nil, fmt.Errorf("%q is no recipe", r.Kind)
	}
}
