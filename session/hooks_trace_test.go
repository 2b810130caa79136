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

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// TestAGrantKnowsTheEntryThatItHasWaitedFor, whether or not the service shows what entries say of
// their owners with their places. It reads nothing of it.
func TestAGrantKnowsTheEntryThatItHasWaitedFor(t *testing.T) {
	for _, kind := range memtest.Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memtest.NewWith(kind.Options)
				granted := make(chan session.Event, 1)
				open := func(ended func(context.Context, session.Event)) *session.Session {
					s, err := st.NewClient().Open(t.Context(), &session.Options{TTL: 20 * time.Second, Hooks: session.Hooks{
						Trace: func(context.Context) string { return "trace" }, Ended: ended,
					}})
					require.NoError(t, err)
					return s
				}
				holder, waiter := open(nil), open(func(_ context.Context, e session.Event) { granted <- e })
				h, err := mutex.New(holder, "n").Lock(t.Context())
				require.NoError(t, err)
				var waiting sync.WaitGroup
				waiting.Go(func() {
					assert.NoError(t, mutex.New(waiter, "n").Do(t.Context(), func(context.Context, *session.Hold) error { return nil }))
				})
				time.Sleep(time.Second)
				queue, err := holder.Queue(t.Context(), "n")
				require.NoError(t, err)
				require.NoError(t, h.Unlock())

				if e := <-granted; assert.NotNil(t, e.WaitedFor) {
					assert.Equal(t, queue[0].Key, e.WaitedFor.Key)
					assert.Empty(t, e.WaitedFor.Trace)
				}
				detail := core.Detail(queue[0])
				assert.Equal(t, 20*time.Second, owner.MetaOf(&detail).TTL)
				waiting.Wait()
				require.NoError(t, holder.Close())
				require.NoError(t, waiter.Close())
			})
		})
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
