package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"
)

// The code of docs/migrating.md before the change, of the libraries that this module knows.
//
//nolint:errcheck // as the code that it stands for
var (
	_ = func(ctx context.Context, client *redis.Client, settle func(context.Context) error) error {
		rs := redsync.New(goredis.NewPool(client))
		m := rs.NewMutex("orders/settle", redsync.WithExpiry(15*time.Second))
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		defer m.UnlockContext(context.WithoutCancel(ctx))
		return settle(ctx)
	}
	_ = func(ctx context.Context, client *redis.Client, settle func(context.Context) error) error {
		locker := redislock.New(client)
		lock, err := locker.Obtain(ctx, "orders/settle", 15*time.Second, &redislock.Options{
			RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
		})
		if err != nil {
			return err
		}
		defer lock.Release(context.WithoutCancel(ctx))
		return settle(ctx)
	}
	_ = func(c *cron.Cron, rs *redsync.Redsync, report func()) {
		c.AddFunc("@every 1s", func() {
			lock := rs.NewMutex("report", redsync.WithTries(1))
			if lock.Lock() != nil {
				return // another replica is at it
			}
			defer lock.Unlock()
			report()
		})
	}
)
