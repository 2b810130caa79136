// Package redislocks has the locks that programs build on one Redis, as they are commonly shown.
package redislocks

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// deleteOwn deletes a key if it has a value.
const deleteOwn = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// SetNX is one key with a time to live: SET name value NX PX time. That is how the documentation of SET and
// most articles show a lock on Redis. A waiter tries again and again.
type SetNX struct {
	Client *redis.Client
	TTL    time.Duration

	// Compare has a release delete the key by a script, only if it has the holder's random value. Many
	// programs do without, and send DEL.
	Compare bool
}

// Lock implements lock.Locker.
func (l *SetNX) Lock(ctx context.Context, name string) (lock.Hold, error) {
	value := rand.Text()
	for {
		err := l.Client.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", TTL: l.TTL}).Err()
		if err == nil {
			return &setNXHold{l, name, value}, nil
		}
		if !errors.Is(err, redis.Nil) {
			return nil, err
		}
		lock.Wait(ctx, lock.Pause)
	}
}

// Close implements lock.Locker.
func (l *SetNX) Close() error { return l.Client.Close() }

type setNXHold struct {
	l           *SetNX
	name, value string
}

// Unlock implements lock.Hold.
func (h *setNXHold) Unlock(ctx context.Context) error {
	if !h.l.Compare {
		return h.l.Client.Del(ctx, h.name).Err()
	}
	return deleted(h.l.Client.Eval(ctx, deleteOwn, []string{h.name}, h.value).Int())
}

// deleted returns the error of a release that has deleted n keys.
func deleted(n int, err error) error {
	if err == nil && n == 0 {
		return lock.ErrLost
	}
	return err
}
