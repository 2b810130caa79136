package both

import (
	"context"
	"errors"
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

// Taker takes a lock of one name.
type Taker func(ctx context.Context, s *session.Session, name string) (*session.Hold, error)

// A Recipe is three requests for one name, of which each excludes the next.
type Recipe struct {
	Name string
	Take [3]Taker
}

// Recipes are all of them.
func Recipes() []Recipe {
	thrice := func(name string, take Taker) Recipe { return Recipe{name, [3]Taker{take, take, take}} }
	read := func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
		return rwlock.New(s, name).RLock(ctx)
	}
	write := func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
		return rwlock.New(s, name).Lock(ctx)
	}
	permits := func(o semaphore.Options, n int64) Taker {
		return func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return semaphore.NewWith(s, name, 3, o).Acquire(ctx, n)
		}
	}
	return []Recipe{
		thrice("mutex", func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.New(s, name).Lock(ctx)
		}),
		thrice("robust", func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.NewWith(s, name, mutex.Options{Robust: true}).Lock(ctx)
		}),
		{"writer and readers", [3]Taker{write, read, write}},
		{"reader and writers", [3]Taker{read, write, read}},
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

// Strangers are entries in a line that somebody else made, all at once, and that
// stand behind whoever holds.
type Strangers struct {
	Count int
	// Leave removes all of them but one, and returns what removes that.
	Leave func() (last func())
}

// Turns has three take turns with strangers behind the first: whatever those say
// of themselves, they are waited for like anybody, and then the others are granted
// in their order, one at a time.
func Turns(ctx context.Context, t testing.TB, r Recipe, name string, ss [3]*session.Session, strangers func() Strangers) {
	t.Helper()
	line := mutex.New(ss[0], name)
	length := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			es, err := line.Queue(ctx)
			return assert.NoError(t, err) && len(es) == n
		}, 20*time.Second, 10*time.Millisecond, "%d in line", n)
	}
	first, err := r.Take[0](ctx, ss[0], name)
	require.NoError(t, err)
	x := strangers()
	length(1 + x.Count)
	var gone, released atomic.Bool
	second := ask(ctx, r.Take[1], ss[1], name, &gone)
	length(2 + x.Count)
	third := ask(ctx, r.Take[2], ss[2], name, &released)
	length(3 + x.Count)
	_, err = mutex.New(ss[2], name).TryLock(ctx)
	require.ErrorIs(t, err, session.ErrNotAcquired)
	assert.Less(t, len(err.Error()), 2000)

	recipetest.Unlock(t, first)
	last := x.Leave()
	gone.Store(true)
	begin := time.Now()
	last()
	h := second.granted(ctx, t)
	// The engine looks without an event after 15 s at the earliest.
	assert.Less(t, time.Since(begin), 12*time.Second, "granted by an event")
	assert.Greater(t, h.Token(), first.Token())
	assert.Positive(t, h.Valid())
	released.Store(true)
	recipetest.Unlock(t, h)
	h3 := third.granted(ctx, t)
	assert.Greater(t, h3.Token(), h.Token())
	recipetest.Unlock(t, h3)
	length(0)
}

// asked is a request under way.
type asked struct {
	done  chan struct{}
	hold  *session.Hold
	err   error
	early bool
}

// ask asks for a hold that must not come before may is set.
func ask(ctx context.Context, take Taker, s *session.Session, name string, may *atomic.Bool) *asked {
	a := &asked{done: make(chan struct{})}
	go func() { // ends with ctx
		defer close(a.done)
		a.hold, a.err = take(ctx, s, name)
		a.early = a.err == nil && !may.Load()
	}()
	return a
}

func (a *asked) granted(ctx context.Context, t testing.TB) *session.Hold {
	t.Helper()
	select {
	case <-a.done:
	case <-ctx.Done():
		require.NoError(t, errors.Join(ctx.Err(), fmt.Errorf("not granted")))
	}
	require.NoError(t, a.err)
	require.False(t, a.early, "granted before those ahead had gone")
	return a.hold
}
