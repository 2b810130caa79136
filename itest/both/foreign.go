package both

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// Values are values that another program may write where an entry has its description.
// The longest have most bytes, of which a server may keep many copies.
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

// Acquirer acquires the lock of a name, or several whose names begin with it.
type Acquirer func(ctx context.Context, s *session.Session, name string) (*session.Hold, error)

// Acquirers returns one for each kind of lock, by the name of the kind.
func Acquirers() map[string]Acquirer {
	lock := func(o mutex.Options) Acquirer {
		return func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.NewWith(s, name, o).Lock(ctx)
		}
	}
	all := func(o mutex.Options) Acquirer {
		return func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.NewWith(s, name, o), mutex.NewWith(s, name+"-2", o))
		}
	}
	permits := func(o semaphore.Options, n int64) Acquirer {
		return func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return semaphore.NewWith(s, name, 3, o).Acquire(ctx, n)
		}
	}
	return map[string]Acquirer{
		"mutex": lock(mutex.Options{}), "robust": lock(mutex.Options{Robust: true}),
		"all": all(mutex.Options{}), "robustall": all(mutex.Options{Robust: true}),
		"reader": func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return rwlock.New(s, name).RLock(ctx)
		},
		"writer": func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return rwlock.New(s, name).Lock(ctx)
		},
		"permits": permits(semaphore.Options{}, 2), "slots": permits(semaphore.Options{Slots: true, Follow: true}, 3),
		"election": func(ctx context.Context, s *session.Session, name string) (*session.Hold, error) {
			return election.New(s, name).Campaign(ctx, "me")
		},
	}
}

// recipe is three requests for one name, of which each excludes the next.
type recipe struct {
	name    string
	acquire [3]Acquirer
}

// recipes returns all recipes.
func recipes() []recipe {
	by := Acquirers()
	all := []recipe{
		{"writer and readers", [3]Acquirer{by["writer"], by["reader"], by["writer"]}},
		{"reader and writers", [3]Acquirer{by["reader"], by["writer"], by["reader"]}},
	}
	for _, name := range []string{"mutex", "robust", "permits", "slots", "election", "all"} {
		all = append(all, recipe{name, [3]Acquirer{by[name], by[name], by[name]}})
	}
	return all
}

// ForeignEntries are entries behind the holder of a queue that another client has made
// together.
type ForeignEntries struct {
	Count int
	// Leave deletes all of them but one, and returns the function that deletes that one.
	Leave func() (last func())
}

// foreignEntries has other clients fill the queues of all recipes with entries of all
// kinds and values.
func foreignEntries(t *testing.T, s Service) {
	for name, layout := range s.Layouts(t) {
		for i, r := range recipes() {
			t.Run(name+" "+r.name, func(t *testing.T) {
				// A few at a time, since a short queue is read with its values, and then all.
				const few = 8
				for from := 0; from < layout.Kinds; from += few {
					layout.turns(t, r, fmt.Sprintf("queue%d-%d", i, from), from, min(from+few, layout.Kinds))
				}
				layout.turns(t, r, fmt.Sprintf("queue%d", i), 0, layout.Kinds)
			})
		}
		for _, c := range layout.Clients {
			c.Kept(t)
		}
	}
}

// turns has three clients wait for each other, with foreign entries behind the first:
// whatever their values, the clients behind wait for them, and are then granted in their
// order, one at a time.
func (l Layout) turns(t testing.TB, r recipe, name string, from, to int) {
	t.Helper()
	ctx := recipetest.Bounded(t)
	length := func(n int) { l.Clients[0].Queued(t, name, n) }
	first, err := r.acquire[0](ctx, l.Clients[0].Session, name)
	require.NoError(t, err)
	x := l.Foreign(t, name, from, to)
	length(1 + x.Count)
	var gone, released atomic.Bool
	second := l.request(ctx, r, 1, name, &gone)
	length(2 + x.Count)
	third := l.request(ctx, r, 2, name, &released)
	length(3 + x.Count)
	_, err = mutex.New(l.Clients[2].Session, name).TryLock(ctx)
	require.ErrorIs(t, err, session.ErrNotAcquired)
	assert.Less(t, len(err.Error()), 2000)

	recipetest.Unlock(t, first)
	last := x.Leave()
	gone.Store(true)
	last()
	h := second.granted(t) // by an event, see EventTTL
	assert.Greater(t, h.Token(), first.Token())
	assert.Positive(t, h.Remaining())
	released.Store(true)
	recipetest.Unlock(t, h)
	h3 := third.granted(t)
	assert.Greater(t, h3.Token(), h.Token())
	recipetest.Unlock(t, h3)
	length(0)
}

// early is a request that must not be granted before may is set.
type early struct {
	*recipetest.Request
	was atomic.Bool // it was granted before
}

// request starts a request of a recipe on a client.
func (l Layout) request(ctx context.Context, r recipe, client int, name string, may *atomic.Bool) *early {
	e, c := &early{}, l.Clients[client]
	e.Request = c.BeginWith(func() (*session.Hold, error) {
		h, err := r.acquire[client](ctx, c.Session, name)
		e.was.Store(err == nil && !may.Load())
		return h, err
	})
	return e
}

func (e *early) granted(t testing.TB) *session.Hold {
	t.Helper()
	h := e.Granted(t)
	require.False(t, e.was.Load(), "granted before the entries ahead had ended")
	return h
}
