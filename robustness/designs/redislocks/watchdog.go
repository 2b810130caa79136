package redislocks

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

const (
	renewOwn = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`

	// deleteAndPublish is deleteOwn, and wakes the waiters.
	deleteAndPublish = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PUBLISH', KEYS[2], '') return redis.call('DEL', KEYS[1]) end return 0`
)

// Watchdog is SetNX with a goroutine that renews the key every third of its time, for as long as the program
// holds, and a channel that wakes the waiters at each release. Redisson made this form known; like there, a
// holder gets no notice when a renewal fails.
type Watchdog struct {
	Client *redis.Client
	TTL    time.Duration
}

func channel(name string) string { return "released:" + name }

// Lock implements lock.Locker.
func (l *Watchdog) Lock(ctx context.Context, name string) (lock.Hold, error) {
	value := rand.Text()
	set := func() (bool, error) {
		err := l.Client.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", TTL: l.TTL}).Err()
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	}
	taken, err := set()
	switch {
	case err != nil:
		return nil, err
	case taken:
		return l.hold(name, value), nil //nolint:contextcheck // it outlives the call
	}
	released := l.Client.Subscribe(ctx, channel(name))
	defer func() { _ = released.Close() }() // nothing is left of it
	if _, err := released.Receive(ctx); err != nil {
		return nil, err
	}
	for {
		taken, err := set()
		switch {
		case err != nil:
			return nil, err
		case taken:
			return l.hold(name, value), nil //nolint:contextcheck // as above
		}
		left, err := l.Client.PTTL(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		late := time.NewTimer(max(left, lock.Pause))
		select {
		case <-released.Channel():
		case <-late.C: // the holder has died
		case <-ctx.Done():
			late.Stop()
			return nil, ctx.Err()
		}
		late.Stop()
	}
}

// hold returns a hold that is renewed.
func (l *Watchdog) hold(name, value string) *watchdogHold {
	ctx, stop := context.WithCancel(context.Background())
	h := &watchdogHold{l, name, value, stop, make(chan struct{})}
	go func() { // ends with Unlock, or when the key has another value
		defer close(h.rest)
		for ctx.Err() == nil {
			lock.Wait(ctx, l.TTL/3)
			there, err := l.Client.Eval(ctx, renewOwn, []string{name}, value, l.TTL.Milliseconds()).Int()
			if err == nil && there == 0 {
				return
			}
		}
	}()
	return h
}

// Close implements lock.Locker.
func (l *Watchdog) Close() error { return l.Client.Close() }

type watchdogHold struct {
	l           *Watchdog
	name, value string
	stop        context.CancelFunc
	rest        chan struct{}
}

// Unlock implements lock.Hold.
func (h *watchdogHold) Unlock(ctx context.Context) error {
	h.stop()
	<-h.rest
	return deleted(h.l.Client.Eval(ctx, deleteAndPublish, []string{h.name, channel(h.name)}, h.value).Int())
}
