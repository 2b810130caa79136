package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// TestTheSameProgramRunsOnEveryBackend has programs that differ in nothing but
// the line that opens their sessions.
func TestTheSameProgramRunsOnEveryBackend(t *testing.T) {
	t.Parallel()
	opts := session.Options{TTL: recipetest.CalmTTL, Label: "worker"}
	e, root := shared.use(t)
	servers := e.Servers()
	cluster := etcdtest.New(t, &etcdtest.Options{Processes: true})
	client := cluster.Client(t)
	store := membackend.New()
	for name, open := range map[string]func() (*session.Session, error){
		"ZooKeeper": func() (*session.Session, error) {
			return zkbackend.Open(recipetest.Bounded(t), servers, &zkbackend.Options{Root: root, Session: opts})
		},
		"Etcd": func() (*session.Session, error) {
			return etcdbackend.Open(recipetest.Bounded(t), client, &etcdbackend.Options{Session: opts})
		},
		"Memory": func() (*session.Session, error) {
			return store.Open(recipetest.Bounded(t), &opts)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("CountsUnderTheLock", func(t *testing.T) { countsUnderTheLock(t, opened(t, open), opened(t, open)) })
			t.Run("LooksAtTheLine", func(t *testing.T) { looksAtTheLine(t, opened(t, open), opened(t, open)) })
			t.Run("HandsOnWhatItClosesOver", func(t *testing.T) { closesOver(t, opened(t, open), opened(t, open)) })
		})
	}
}

// opened is an open Session, closed with the test.
func opened(t *testing.T, open func() (*session.Session, error)) *session.Session {
	t.Helper()
	s, err := open()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// countsUnderTheLock is several workers who write a counter, each with its
// token.
func countsUnderTheLock(t *testing.T, sessions ...*session.Session) {
	const workers, each = 3, 10
	var counter int
	var tokens []session.Token
	var all sync.WaitGroup
	for _, s := range sessions {
		for range workers {
			all.Go(func() {
				m := mutex.New(s, "counters/orders")
				for range each {
					assert.NoError(t, m.Do(recipetest.Bounded(t), func(ctx context.Context, h *session.Hold) error {
						counter++ // the race detector watches
						tokens = append(tokens, h.Token())
						return ctx.Err()
					}))
				}
			})
		}
	}
	all.Wait()

	assert.Equal(t, len(sessions)*workers*each, counter)
	assert.True(t, slices.IsSorted(tokens), "tokens rise")
	assert.Len(t, slices.Compact(tokens), counter, "and none comes twice")
	errOwn := errors.New("mine")
	err := mutex.New(sessions[0], "counters/orders").Do(recipetest.Bounded(t), func(context.Context, *session.Hold) error { return errOwn })
	assert.ErrorIs(t, err, errOwn)
	nothingStands(t, sessions[0], "counters/orders")
}

// looksAtTheLine is a holder, one who waits, one who gives up, and one who only
// tries.
func looksAtTheLine(t *testing.T, one, two *session.Session) {
	const name = "orders/settle of ünï"
	m := mutex.New(two, name)
	h, err := mutex.New(one, name).Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	_, err = mutex.New(one, name).Lock(h.Context())
	require.ErrorIs(t, err, session.ErrReentrant)
	_, err = m.TryLock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrNotAcquired)
	assert.ErrorContains(t, err, "(worker)")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = m.Lock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, session.ErrNotAcquired)

	next := make(chan *session.Hold, 1)
	go func() {
		h, err := m.Lock(recipetest.Bounded(t))
		assert.NoError(t, err)
		next <- h
	}()
	recipetest.Until(t, "the line", func() bool {
		line, err := m.Queue(recipetest.Bounded(t))
		return err == nil && len(line) == 2
	})
	line, err := m.Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.EqualValues(t, h.Token(), line[0].Token)
	assert.Less(t, line[0].Token, line[1].Token)
	assert.Equal(t, "worker", line[1].Meta.Label)
	names, err := two.Names(recipetest.Bounded(t), "orders/")
	require.NoError(t, err)
	assert.Equal(t, []string{name}, names)

	assert.Positive(t, h.Valid())
	recipetest.Unlock(t, h)
	require.ErrorIs(t, h.Unlock(), session.ErrUnlocked)
	assert.Zero(t, h.Valid())
	require.ErrorIs(t, context.Cause(h.Context()), session.ErrReleased)
	second := recipetest.Wait(t, next, "the one behind")
	assert.EqualValues(t, line[1].Token, second.Token())
	recipetest.Unlock(t, second)
	_, err = mutex.New(one, "").Lock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrInvalidName)
	nothingStands(t, one, name)
}

// closesOver closes a Session that still holds.
func closesOver(t *testing.T, holder, waiter *session.Session) {
	h, err := mutex.New(holder, "last").Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	next := make(chan error, 1)
	go func() {
		next <- mutex.New(waiter, "last").Do(recipetest.Bounded(t), func(context.Context, *session.Hold) error {
			return context.Cause(h.Context())
		})
	}()
	recipetest.Until(t, "the line", func() bool {
		line, err := mutex.New(waiter, "last").Queue(recipetest.Bounded(t))
		return err == nil && len(line) == 2
	})
	require.NoError(t, holder.Close())

	require.ErrorIs(t, recipetest.Wait(t, next, "the one behind"), session.ErrLost, "the hold before had ended")
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
	_, err = mutex.New(holder, "last").Lock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrClosed)
	nothingStands(t, waiter, "last")
}

// nothingStands checks that nobody is in a line.
func nothingStands(t *testing.T, s *session.Session, name string) {
	t.Helper()
	line, err := mutex.New(s, name).Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.Empty(t, line)
}
