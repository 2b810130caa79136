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

// standing is one of several kinds of clients in a line: it has been told to
// take the lock, says when it has it, and gives it back when asked to.
type standing struct {
	kind    string
	cancel  func() // of ours
	granted chan granted
	release func() error
}

// granted is what a client knows of its entry.
type granted struct {
	path  string // "" if it does not say
	token int64
	at    driver.Instant
}

// crowd is who can stand in a line of one path.
type crowd struct {
	e      *zktest.Ensemble
	fair   *lockClient
	theirs map[string]*program // by the kind of client
}

// stands joins a line.
//
//nolint:revive // the test comes first
func (c *crowd) stands(t testing.TB, ctx context.Context, kind, name string) *standing {
	s := &standing{kind: kind, granted: make(chan granted, 1)}
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
		a.told(t, "acquire")
		go func() {
			select {
			case words := <-a.answers:
				at := recipetest.Now()
				g := granted{path: words[min(1, len(words)-1)], at: at}
				_, err := fmt.Sscan(words[min(2, len(words)-1)], &g.token)
				assert.NoError(t, err, "%v", words)
				s.granted <- g
			case <-p.process.Done():
			}
		}()
		s.release = func() error { a.does(t, "release"); return nil }
	}
	return s
}

// oneLine lets clients join one after another, and one of ours leave, and then
// give back one after another. It checks that the line shows them as they came,
// and that they were granted in that order and one at a time.
func (c *crowd) oneLine(t *testing.T, name string, kinds []string) {
	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	lookout := lookAt(t, c.e, c.fair.opts.Root+"/"+name)
	var line []*standing
	for i, kind := range kinds {
		line = append(line, c.stands(t, ctx, kind, name))
		lookout.Sees(t, i+1)
	}
	entries := lookout.Sees(t, len(kinds))
	tokens := c.checkQueue(t, name, kinds, entries)

	// The first of ours that waits goes: nobody notices.
	leaver := 1 + slices.Index(kinds[1:], "fairlock")
	require.Positive(t, leaver)
	line[leaver].cancel()
	lookout.SeesEnd(t, entries[leaver])
	var last driver.Instant
	var slowest time.Duration
	for i, s := range line {
		if i == leaver {
			continue
		}
		g := recipetest.Wait(t, s.granted, fmt.Sprintf("a grant to %s, number %d of %v", s.kind, i, kinds))
		if g.path != "" {
			assert.Equal(t, entries[i], g.path, "%s, number %d", s.kind, i)
			assert.Equal(t, tokens[i], g.token, "%s, number %d", s.kind, i)
		}
		if i > 0 {
			assert.Greater(t, g.at, last, "%s, number %d, before the one ahead gave back", s.kind, i)
			slowest = max(slowest, g.at.Sub(last))
		}
		for j, other := range line[i+1:] {
			assert.Empty(t, other.granted, "%s, number %d, before its turn", other.kind, i+1+j)
		}
		last = recipetest.Now()
		require.NoError(t, s.release(), s.kind)
	}
	lookout.SeesNothingLeft(t)
	t.Logf("%v: slowest hand-off %s", kinds, slowest)
}

// checkQueue compares the line with what the server says of each entry, and
// returns the tokens, which rise.
func (c *crowd) checkQueue(t *testing.T, name string, kinds, entries []string) (tokens []int64) {
	admin := c.e.Client(t)
	line, err := mutex.New(c.fair.Session, name).Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, line, len(kinds))
	for i, e := range line {
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

// rotations has each kind as the first of a line once, before others and before
// its like.
func (c *crowd) rotations(t *testing.T, kinds ...string) {
	for first := range kinds {
		rotated := slices.Concat(kinds[first:], kinds[:first])
		t.Run(rotated[0]+"First", func(t *testing.T) {
			c.oneLine(t, fmt.Sprint("line", first), slices.Concat(rotated, rotated, []string{"fairlock"}, rotated[:1]))
		})
	}
}
