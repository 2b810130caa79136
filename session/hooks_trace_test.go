package session_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// traced opens a Session whose requests belong to the trace that their context names.
func traced(t *testing.T, st *membackend.Store, ended func(session.Event)) *session.Session {
	s, err := st.NewClient().Open(t.Context(), &session.Options{TTL: 20 * time.Second, Hooks: session.Hooks{
		Trace: func(ctx context.Context) string {
			trace, _ := ctx.Value(valueKey{}).(string)
			return trace
		},
		Ended: func(_ context.Context, e session.Event) { ended(e) },
	}})
	require.NoError(t, err)
	return s
}

// TestEntriesShowTheTraceOfTheirRequest, whether or not the service shows what entries say of their
// owners with their places, and also where an entry has a value. A grant knows the entry that was
// waited for, and reads nothing of it.
func TestEntriesShowTheTraceOfTheirRequest(t *testing.T) {
	locks := map[string]func(context.Context, *session.Session) (*session.Hold, error){
		"mutex": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return mutex.New(s, "n").Lock(ctx)
		},
		"election": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return election.New(s, "n").Campaign(ctx, "me")
		},
	}
	for _, kind := range memtest.Kinds() {
		for recipe, lock := range locks {
			t.Run(kind.Name+"/"+recipe, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := memtest.NewWith(kind.Options)
					granted := make(chan session.Event, 1)
					holder, waiter := traced(t, st, func(session.Event) {}), traced(t, st, func(e session.Event) { granted <- e })
					h, err := lock(context.WithValue(t.Context(), valueKey{}, "trace-of-the-holder"), holder)
					require.NoError(t, err)
					var waiting sync.WaitGroup
					waiting.Go(func() {
						h, err := lock(context.WithValue(t.Context(), valueKey{}, "trace-of-the-waiter"), waiter)
						if assert.NoError(t, err) {
							assert.NoError(t, h.Unlock())
						}
					})
					time.Sleep(time.Second)
					queue, err := holder.Queue(t.Context(), "n")
					require.NoError(t, err)
					require.NoError(t, h.Unlock())

					require.Len(t, queue, 2)
					assert.Equal(t, "trace-of-the-holder", queue[0].Trace)
					assert.Equal(t, "trace-of-the-waiter", queue[1].Trace)
					detail := session.Engine(door.Key{}).Detail(queue[1])
					assert.Equal(t, 20*time.Second, owner.MetaOf(&detail).TTL)
					if e := <-granted; assert.NotNil(t, e.WaitedFor) {
						assert.Equal(t, queue[0].Key, e.WaitedFor.Key)
						assert.Empty(t, e.WaitedFor.Trace)
					}
					waiting.Wait()
					require.NoError(t, holder.Close())
					require.NoError(t, waiter.Close())
				})
			})
		}
	}
}

// TestTraceIsAskedForBeforeEachJoin, in the context that Started returned.
func TestTraceIsAskedForBeforeEachJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var asked atomic.Int64
		s, err := st.NewClient().Open(t.Context(), &session.Options{Hooks: session.Hooks{
			Started: func(ctx context.Context, e session.Event) context.Context {
				return context.WithValue(ctx, valueKey{}, e.Name)
			},
			Trace: func(ctx context.Context) string {
				assert.Equal(t, "n", ctx.Value(valueKey{}))
				return strings.Repeat("x", int(asked.Add(1)))
			},
		}})
		require.NoError(t, err)
		other, err := st.NewClient().Open(t.Context(), nil)
		require.NoError(t, err)
		ahead, err := mutex.New(other, "n").Lock(t.Context())
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			h, err := mutex.New(s, "n").Lock(t.Context())
			if err == nil {
				err = h.Unlock()
			}
			done <- err
		}()
		synctest.Wait()
		trace := func() string {
			queue, err := other.Queue(t.Context(), "n")
			require.NoError(t, err)
			require.Len(t, queue, 2)
			require.NoError(t, other.Evict(t.Context(), queue[1]))
			time.Sleep(time.Second)
			return queue[1].Trace
		}

		assert.Equal(t, "x", trace())
		assert.Equal(t, "xx", trace(), "the request has joined again")
		require.NoError(t, ahead.Unlock())
		require.NoError(t, <-done)
		require.NoError(t, s.Close())
		require.NoError(t, other.Close())
	})
}
