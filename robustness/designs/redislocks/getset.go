package redislocks

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// GetSet is SETNX with a time in the value, by the clocks of the clients, and GETSET to take over a lock whose
// time is over: the pattern that the documentation of SETNX had before SET could do both, and that is still
// copied. The clocks of all programs have to agree.
type GetSet struct {
	Client *redis.Client
	TTL    time.Duration
	ahead  atomic.Int64
}

// SetClock implements lock.Clocked.
func (l *GetSet) SetClock(ahead time.Duration) { l.ahead.Store(int64(ahead)) }

func (l *GetSet) now() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }

// Lock implements lock.Locker.
func (l *GetSet) Lock(ctx context.Context, name string) (lock.Hold, error) {
	for {
		until := l.now().Add(l.TTL)
		h := &getSetHold{l, name, until}
		value := strconv.FormatInt(until.UnixMilli(), 10)
		taken, err := l.Client.SetNX(ctx, name, value, 0).Result()
		switch {
		case err != nil:
			return nil, err
		case taken:
			return h, nil
		}
		over, err := l.isOver(l.Client.Get(ctx, name))
		if err == nil && over {
			// Of several that see that, the first one gets the old value back.
			over, err = l.isOver(l.Client.GetSet(ctx, name, value)) //nolint:staticcheck // the pattern is older than what replaces it
		}
		switch {
		case err != nil:
			return nil, err
		case over:
			return h, nil
		}
		lock.Wait(ctx, lock.Pause)
	}
}

// isOver reports whether the time in a value is over; false if there is none.
func (l *GetSet) isOver(of *redis.StringCmd) (bool, error) {
	until, err := of.Int64()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil && l.now().UnixMilli() > until, err
}

// Close implements lock.Locker.
func (l *GetSet) Close() error { return l.Client.Close() }

type getSetHold struct {
	l     *GetSet
	name  string
	until time.Time
}

// Unlock implements lock.Hold. A key whose time is over may be another holder's, so it stays.
func (h *getSetHold) Unlock(ctx context.Context) error {
	if h.l.now().After(h.until) {
		return lock.ErrLost
	}
	return h.l.Client.Del(ctx, h.name).Err()
}
