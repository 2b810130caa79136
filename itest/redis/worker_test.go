package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
)

// openWorker is the client of a process that package worker has started. Its server is an address.
func openWorker(ctx context.Context, j worker.Job) (*worker.Client, error) {
	option := rueidis.ClientOption{InitAddress: j.Servers, DisableCache: true}
	s, err := redisbackend.Open(ctx, option, &redisbackend.Options{Root: j.Root, MaxTTL: 2 * recipetest.EventTTL, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &worker.Client{
		Session: s, Close: func() error { client.Close(); return nil },
		Guard: func(h *session.Hold) worker.Write {
			guard := guardOf(j.Root, h)
			return func(ctx context.Context, key, value string) (bool, error) {
				return guard.write(ctx, client, key, value)
			}
		},
	}, nil
}

// guard is the entry of a hold, for a script that writes only while it is there.
type guard struct {
	headers, place string
	held           bool
}

func guardOf(root string, h *session.Hold) guard {
	ref := recipetest.Refs(h)[0]
	return guard{"{" + root + "}:h:" + ref.Queue, strconv.FormatInt(ref.Place, 10), h.Remaining() > 0}
}

func (g guard) write(ctx context.Context, client rueidis.Client, key, value string) (bool, error) {
	if !g.held {
		return false, nil
	}
	const text = `
		if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
		redis.call('HSET', KEYS[2], 'value', ARGV[2])
		redis.call('HINCRBY', KEYS[2], 'times', 1)
		return 1`
	wrote, err := client.Do(ctx, client.B().Eval().Script(text).Numkeys(2).Key(g.headers, key).Arg(g.place, value).Build()).AsBool()
	if err != nil {
		return false, fmt.Errorf("guarded write: %w", err)
	}
	return wrote, nil
}
