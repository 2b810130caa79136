package zookeeper

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// stale answers the reads of a client as a server would that has not caught up: it
// shows a folder as it was, until the client sends a Sync.
type stale struct {
	dir   string
	names []string
	stats map[string]*zk.Stat

	mu     sync.Mutex
	behind bool
	reads  int // of the folder
}

func (s *stale) before(f zkframe.Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Op() == zkframe.OpSync {
		s.behind = false
	}
	return true
}

func (s *stale) reply(request, f zkframe.Frame) (zkframe.Frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.Op() == zkframe.OpGetChildren2 && request.Path() == s.dir {
		s.reads++
	}
	if !s.behind {
		return f, true
	}
	switch request.Op() {
	case zkframe.OpGetChildren2:
		if request.Path() == s.dir {
			body := binary.BigEndian.AppendUint32(nil, uint32(len(s.names)))
			for _, n := range s.names {
				body = append(binary.BigEndian.AppendUint32(body, uint32(len(n))), n...)
			}
			return answer(f, append(body, encoded(&zk.Stat{})...)), true
		}
	case zkframe.OpExists:
		if stat := s.stats[request.Path()]; stat != nil {
			return answer(f, encoded(stat)), true
		}
	}
	return f, true
}

// answer is a successful reply with the numbers of f and another body.
func answer(f zkframe.Frame, body []byte) zkframe.Frame {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	b = append(b, f[4:16]...) // the number of the request, and the transaction
	b = append(b, 0, 0, 0, 0) // no error
	return zkframe.Frame(append(b, body...))
}

func encoded(s *zk.Stat) []byte {
	b, err := binary.Append(nil, binary.BigEndian, s)
	if err != nil {
		panic(err) // a Stat has fields of fixed size only
	}
	return b
}

// TestAReleaseThatAServerDoesNotShowYetIsNotTakenForForged: a waiter is granted by
// what the holder writes into its entry as it releases, and looks at the queue a
// moment later. The server that it asks may not have the release yet.
func TestAReleaseThatAServerDoesNotShowYetIsNotTakenForForged(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	holder := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	h := holder.Lock(t, "x")
	s := &stale{dir: root + "/x", stats: map[string]*zk.Stat{}}
	w := &wire{before: s.before, reply: s.reply}
	waiter := newClient(t, root, recipetest.CalmTTL)
	waiter.opts.Dial = w.dial
	waiter.open(t, e.Endpoints()...)
	next := waiter.Begin(recipetest.Bounded(t), "x")
	stands(t, w, 2)
	rests(t, w)
	s.mu.Lock()
	s.names = children(t, conn, s.dir)
	for _, n := range s.names {
		_, stat, err := conn.Exists(s.dir + "/" + n)
		require.NoError(t, err)
		s.stats[s.dir+"/"+n] = stat
	}
	require.True(t, slices.ContainsFunc(s.names, func(n string) bool { return strings.Contains(n, "lock") }), "%q", s.names)
	s.behind, s.reads = true, 0
	s.mu.Unlock()

	recipetest.Unlock(t, h)
	got := next.Granted(t)
	recipetest.Until(t, "the waiter has looked at the queue", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reads > 0
	})
	rests(t, w)

	require.NoError(t, got.Context().Err())
	recipetest.Unlock(t, got)
	waiter.Kept(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.False(t, s.behind, "the waiter has sent a Sync")
}
