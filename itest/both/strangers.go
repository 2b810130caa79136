package both

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// Values are what somebody may put where an entry says of itself what it is. The
// longest have so many bytes, which a server may keep many times over.
func Values(most int) []string {
	return []string{
		"", "null", "{", "[]", "\xff\xfe\x00", "-1", "1e99", "NaN",
		strings.Repeat("x", most),
		`{"v":1,"label":"` + strings.Repeat("x", most-20) + `"}`,
		strings.Repeat("[", most),
		strings.Repeat(`{"v":1,"holds":`, most/16) + "1" + strings.Repeat("}", most/16),
		`{"v":1,"pid":1e99,"since":-99999999999999999999}`,
		`{"v":1,"since":9223372036854775807,"pid":-9223372036854775808}`,
		`{"v":1,"since":NaN,"pid":Infinity}`,
		`{"v":99,"kind":"mutex","host":"tomorrow","weight":-5}`,
		`{"v":-1}`, `{"v":"1"}`, `{"v":1.5}`,
		`{"v":1,"admitted":true,"shared":true,"token":9223372036854775807,"weight":-1}`,
		`{"v":1,"admitted":true,"token":-9223372036854775808}`,
		`{"shared":true}`, `{"v":1,"shared":true,"shared":false}`,
		`{"v":1,"kind":"mutex","host":"web-1\u001b[2J\nlevel=ERROR msg=forged","label":"\u009b31m\u202e"}`,
		"{\"v\":1,\"host\":\"\xff\xfe\"}",
		"0 clean", "fairlock1 x",
	}
}

// taker takes a lock of one name.
type taker func(ctx context.Context, s *session.Session, name string) (*session.Hold, error)

// recipe is three requests for one name, of which each excludes the next.
type recipe struct {
	name string
	take [3]taker
}

// recipes are all of them.
func recipes() []recipe {
	thrice := func(name string, take taker) recipe { return recipe{name, [3]taker{take, take, take}} }
	read := func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
		return rwlock.New(s, name).RLock(ctx)
	}
	write := func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
		return rwlock.New(s, name).Lock(ctx)
	}
	permits := func(o semaphore.Options, n int64) taker {
		return func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return semaphore.NewWith(s, name, 3, o).Acquire(ctx, n)
		}
	}
	return []recipe{
		thrice("mutex", func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.New(s, name).Lock(ctx)
		}),
		thrice("robust", func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.NewWith(s, name, mutex.Options{Robust: true}).Lock(ctx)
		}),
		{"writer and readers", [3]taker{write, read, write}},
		{"reader and writers", [3]taker{read, write, read}},
		thrice("permits", permits(semaphore.Options{}, 2)),
		thrice("slots", permits(semaphore.Options{Slots: true, Follow: true}, 3)),
		thrice("election", func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return election.New(s, name).Campaign(ctx, "me")
		}),
		thrice("all", func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.New(s, name), mutex.New(s, name+"-2"))
		}),
	}
}

// Strangers are entries in a queue that another client made, all at once, and that
// stand behind the holder.
type Strangers struct {
	Count int
	// Leave removes all of them but one, and returns what removes that.
	Leave func() (last func())
}

// strangersInEveryLine has other clients fill the queues of all recipes with entries
// of all kinds that say all kinds of things.
func strangersInEveryLine(t *testing.T, s Service) {
	for name, layout := range s.Layouts(t) {
		for i, r := range recipes() {
			t.Run(name+" "+r.name, func(t *testing.T) {
				// Few at a time, since a short queue is read with its values, and all.
				const few = 8
				for from := 0; from < layout.Kinds; from += few {
					layout.turns(t, r, fmt.Sprintf("line%d-%d", i, from), from, min(from+few, layout.Kinds))
				}
				layout.turns(t, r, fmt.Sprintf("line%d", i), 0, layout.Kinds)
			})
		}
		for _, c := range layout.Clients {
			c.Kept(t)
		}
	}
}

// turns has three clients take turns with strangers behind the first: whatever those
// say of themselves, they are waited for like anybody, and then the others are
// granted in their order, one at a time.
func (l Layout) turns(t testing.TB, r recipe, name string, from, to int) {
	t.Helper()
	ctx := recipetest.Bounded(t)
	length := func(n int) { l.Clients[0].Queued(t, name, n) }
	first, err := r.take[0](ctx, l.Clients[0].Session, name)
	require.NoError(t, err)
	x := l.Strangers(t, name, from, to)
	length(1 + x.Count)
	var gone, released atomic.Bool
	second := l.ask(ctx, r, 1, name, &gone)
	length(2 + x.Count)
	third := l.ask(ctx, r, 2, name, &released)
	length(3 + x.Count)
	_, err = mutex.New(l.Clients[2].Session, name).TryLock(ctx)
	require.ErrorIs(t, err, session.ErrNotAcquired)
	assert.Less(t, len(err.Error()), 2000)

	recipetest.Unlock(t, first)
	last := x.Leave()
	gone.Store(true)
	begin := time.Now()
	last()
	h := second.granted(t)
	// The engine looks without an event after 15 s at the earliest.
	assert.Less(t, time.Since(begin), 12*time.Second, "granted by an event")
	assert.Greater(t, h.Token(), first.Token())
	assert.Positive(t, h.Remaining())
	released.Store(true)
	recipetest.Unlock(t, h)
	h3 := third.granted(t)
	assert.Greater(t, h3.Token(), h.Token())
	recipetest.Unlock(t, h3)
	length(0)
}

// early is a request for a hold that must not come before may is set.
type early struct {
	*recipetest.Request
	was atomic.Bool // it came before
}

// ask has a client make the request of a recipe.
func (l Layout) ask(ctx context.Context, r recipe, client int, name string, may *atomic.Bool) *early {
	e, c := &early{}, l.Clients[client]
	e.Request = c.BeginWith(func() (*session.Hold, error) {
		h, err := r.take[client](ctx, c.Session, name)
		e.was.Store(err == nil && !may.Load())
		return h, err
	})
	return e
}

func (e *early) granted(t testing.TB) *session.Hold {
	t.Helper()
	h := e.Granted(t)
	require.False(t, e.was.Load(), "granted before those ahead had gone")
	return h
}
