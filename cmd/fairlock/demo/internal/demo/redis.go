package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/aof"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
)

// redisService is a Redis server in a process of its own, read with plain commands. Its events come
// from its append-only file: see package aof.
type redisService struct {
	server *redistest.Server
	admin  rueidis.Client
	data   *testserver.Dir
	lock   string
}

// redisPrefix begins the names of all keys of the root.
const redisPrefix = "{" + redisbackend.DefaultRoot + "}:"

func openRedis(ctx context.Context, lock string) (_ service, err error) {
	s := &redisService{lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start Redis: %w", err), s.close())
		}
	}()
	s.data, err = testserver.MakeDir("fairlock-demo", true)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.dir(), 0o700); err != nil {
		return nil, err //nolint:wrapcheck // it names what failed
	}
	s.server, err = redistest.Start(ctx, &redistest.Options{Persistence: redistest.Log, Dir: s.dir()})
	if err != nil {
		return nil, err
	}
	s.admin, err = s.server.Connect(ctx)
	if err != nil {
		return nil, err
	}
	err = redisbackend.InitURL(ctx, s.address(), nil) // or the first worker would wait
	if err != nil {
		return nil, err
	}
	return s, nil
}

// dir is the folder of the server.
func (s *redisService) dir() string { return filepath.Join(s.data.Path(), "redis") }

func (s *redisService) close() error {
	var errs []error
	if s.admin != nil {
		s.admin.Close()
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.data != nil {
		errs = append(errs, s.data.Remove())
	}
	return errors.Join(errs...)
}

func (s *redisService) address() string { return s.server.URL() }

// follow begins with the first command, so it misses none.
func (s *redisService) follow(ctx context.Context, l listener) (run func(), err error) {
	path, err := aof.Find(filepath.Join(s.dir(), "data"))
	if err != nil {
		return nil, err
	}
	return func() {
		err := aof.Follow(ctx, path, func(c aof.Command) {
			if err := s.report(l, c); err != nil {
				l.fail(err)
			}
		})
		if err != nil {
			l.fail(err)
		}
	}, nil
}

// endMarkKey is the end mark.
const endMarkKey = "demo:end"

// report passes on what a command shows. An entry is a member of the zset of the queue, and fields of its
// hash, which follow.
func (s *redisService) report(l listener, c aof.Command) error {
	if len(c.Args) < 3 {
		return nil
	}
	key, rest := c.Args[1], c.Args[2:]
	switch strings.ToUpper(c.Args[0]) {
	case "SET":
		if key == endMarkKey {
			l.endMarked()
		}
	case "HSET":
		if key != redisPrefix+"h:"+s.lock {
			return nil
		}
		for i := 0; i+1 < len(rest); i += 2 {
			place, ok := strings.CutSuffix(rest[i], "d")
			if !ok || slices.Index(rest, place) < 0 { // it is written with its header when it is made
				continue
			}
			token, err := strconv.ParseInt(place, 10, 64)
			if err != nil {
				return fmt.Errorf("the place of an entry: %w", err)
			}
			meta, _ := owner.DecodeMeta([]byte(rest[i+1]))
			l.created(entry{token: token, meta: meta})
		}
	case "ZREM":
		if key != redisPrefix+"q:"+s.lock {
			return nil
		}
		for _, place := range rest {
			token, err := strconv.ParseInt(place, 10, 64)
			if err != nil {
				return fmt.Errorf("the place of an entry: %w", err)
			}
			l.deleted(token, c.At)
		}
	}
	return nil
}

func (s *redisService) markEnd(ctx context.Context) error {
	for _, command := range []rueidis.Completed{s.admin.B().Set().Key(endMarkKey).Value("1").Build(), s.admin.B().Del().Key(endMarkKey).Build()} {
		if err := s.admin.Do(ctx, command).Error(); err != nil {
			return fmt.Errorf("mark the end of the queue: %w", err)
		}
	}
	return nil
}

// first reads on the only server, so it sees all that was acknowledged.
func (s *redisService) first(ctx context.Context) (token int64, err error) {
	places, err := s.admin.Do(ctx, s.admin.B().Zrange().Key(redisPrefix+"q:"+s.lock).Min("0").Max("0").Build()).AsStrSlice()
	if err == nil && len(places) > 0 {
		token, err = strconv.ParseInt(places[0], 10, 64)
	}
	if err != nil {
		return 0, fmt.Errorf("read the first entry of the queue: %w", err)
	}
	return token, nil
}

// leftovers returns all keys but the one that every root has.
func (s *redisService) leftovers(ctx context.Context) (keys []string, sessions int, err error) {
	keys, err = s.admin.Do(ctx, s.admin.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		return nil, 0, fmt.Errorf("count what is left: %w", err)
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == redisPrefix+"meta" })
	n, err := s.admin.Do(ctx, s.admin.B().Zcard().Key(redisPrefix+"ses").Build()).AsInt64()
	if err != nil {
		return nil, 0, fmt.Errorf("count what is left: %w", err)
	}
	slices.Sort(keys)
	return keys, int(n), nil
}
