package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zktest"
)

// contender is a client of one of several kinds in a queue: it acquires the lock, reports
// when it holds, and releases when release is called.
type contender struct {
	kind    string
	cancel  func() // of ours
	granted chan granted
	release func() error
}

// granted is what a client knows of its entry.
type granted struct {
	path  string // "" if it does not report one
	token int64
	at    driver.Instant
}

// crowd is the clients that can share the queue of one path.
type crowd struct {
	e      *zktest.Ensemble
	fair   *lockClient
	theirs map[string]*program // by the kind of client
}

// join joins a queue.
//
//nolint:revive // the test comes first
func (c *crowd) join(t testing.TB, ctx context.Context, kind, name string) *contender {
	s := &contender{kind: kind, granted: make(chan granted, 1)}
	path := c.fair.opts.Root + "/" + name
	switch p := c.theirs[kind]; {
	case kind == "fairlock":
		ctx, cancel := context.WithCancel(ctx)
		r := c.fair.Begin(ctx, name)
		go func() {
			if <-r.Done; r.Err == nil {
				s.granted <- granted{path: recipetest.Refs(r.Hold)[0].Key, token: int64(r.Hold.Token()), at: r.At}
			}
		}()
		s.release = func() error { return r.Hold.Unlock() }
		s.cancel = func() {
			cancel()
			<-r.Done
			assert.ErrorIs(t, r.Err, context.Canceled)
		}
	case kind == "gozk":
		lock := zk.NewLock(c.e.Client(t), path, zk.WorldACL(zk.PermAll))
		go func() { // ends at the latest with the connection
			if err := lock.Lock(); err == nil {
				s.granted <- granted{at: recipetest.Now()}
			} else if ctx.Err() == nil {
				t.Errorf("zk.Lock: %v", err)
			}
		}()
		s.release = lock.Unlock
	default:
		a := p.open(t, map[string]string{"curator": "mutex", "kazoo": "lock"}[kind], path)
		a.command(t, "acquire")
		go func() {
			select {
			case fields := <-a.answers:
				at := recipetest.Now()
				g := granted{path: fields[min(1, len(fields)-1)], at: at}
				_, err := fmt.Sscan(fields[min(2, len(fields)-1)], &g.token)
				assert.NoError(t, err, "%v", fields)
				s.granted <- g
			case <-p.process.Done():
			}
		}()
		s.release = func() error { a.does(t, "release"); return nil }
	}
	return s
}

// oneQueue lets clients join one after another, one of ours leave, and then the others
// release one after another. It checks that the queue shows them in the order of the
// joins, and that they were granted in that order, one at a time.
func (c *crowd) oneQueue(t *testing.T, name string, kinds []string) {
	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	monitor := monitorOf(t, c.e, c.fair.opts.Root+"/"+name)
	var all []*contender
	for i, kind := range kinds {
		all = append(all, c.join(t, ctx, kind, name))
		monitor.Sees(t, i+1)
	}
	entries := monitor.Sees(t, len(kinds))
	tokens := c.checkQueue(t, name, kinds, entries)

	// Our first waiter leaves: no other client is granted by that.
	leaver := 1 + slices.Index(kinds[1:], "fairlock")
	require.Positive(t, leaver)
	all[leaver].cancel()
	monitor.SeesEnd(t, entries[leaver])
	var last driver.Instant
	var slowest time.Duration
	for i, s := range all {
		if i == leaver {
			continue
		}
		g := recipetest.Wait(t, s.granted, fmt.Sprintf("a grant to %s, number %d of %v", s.kind, i, kinds))
		if g.path != "" {
			assert.Equal(t, entries[i], g.path, "%s, number %d", s.kind, i)
			assert.Equal(t, tokens[i], g.token, "%s, number %d", s.kind, i)
		}
		if i > 0 {
			assert.Greater(t, g.at, last, "%s, number %d, before the one ahead released", s.kind, i)
			slowest = max(slowest, g.at.Sub(last))
		}
		for j, other := range all[i+1:] {
			assert.Empty(t, other.granted, "%s, number %d, before its turn", other.kind, i+1+j)
		}
		last = recipetest.Now()
		require.NoError(t, s.release(), s.kind)
	}
	monitor.SeesNothingLeft(t)
	t.Logf("%v: slowest hand-off %s", kinds, slowest)
}

// checkQueue compares the queue with what the server has of each entry, and returns the
// tokens, which rise.
func (c *crowd) checkQueue(t *testing.T, name string, kinds, entries []string) (tokens []int64) {
	admin := c.e.Client(t)
	all, err := mutex.New(c.fair.Session, name).Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, all, len(kinds))
	for i, e := range all {
		there, stat, err := admin.Exists(entries[i])
		require.NoError(t, err)
		require.True(t, there)
		tokens = append(tokens, stat.Czxid)
		assert.Equal(t, entries[i], e.Key, "number %d", i)
		assert.EqualValues(t, stat.Czxid, e.Token, "number %d, %s", i, kinds[i])
		assert.Equal(t, ownerOf(t, admin, entries[i]), e.Session, "number %d, %s", i, kinds[i])
		assert.Equal(t, kinds[i] != "fairlock", e.Foreign, "number %d, %s", i, kinds[i])
		assert.Equal(t, kinds[i] == "fairlock", e.PID != 0, "number %d, %s", i, kinds[i])
		assert.False(t, recipetest.Detail(e).Unleased)
		assert.Equal(t, session.Exclusive, e.Mode)
	}
	assert.True(t, slices.IsSorted(tokens), "tokens rise: %v", tokens)
	return tokens
}

// rotations has each kind as the first of a queue once, before others and before its own
// kind.
func (c *crowd) rotations(t *testing.T, kinds ...string) {
	for first := range kinds {
		rotated := slices.Concat(kinds[first:], kinds[:first])
		t.Run(rotated[0]+"First", func(t *testing.T) {
			c.oneQueue(t, fmt.Sprint("queue", first), slices.Concat(rotated, rotated, []string{"fairlock"}, rotated[:1]))
		})
	}
}
