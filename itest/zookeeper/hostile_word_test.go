package zookeeper

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// TestWhoLeavesFalseWordIsNotBelievedForLong is about a stranger who stands
// behind a holder, never held, and leaves as one does who gives back a hold. Who
// stands behind him cannot know better at that moment. It finds out a moment
// later, and believes nobody from then on.
func TestWhoLeavesFalseWordIsNotBelievedForLong(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	for name, lie := range map[string]struct {
		node string
		ops  func(dir, node string) []any
	}{
		"in a sealed entry": {"0123456789abcdefx-lock-", func(dir, node string) []any {
			return []any{
				&zk.SetDataRequest{Path: dir + "/" + node, Version: -1},
				&zk.DeleteRequest{Path: dir + "/" + node, Version: -1},
			}
		}},
		"in the folder": {"0123456789abcdef-lock-", func(dir, node string) []any {
			return []any{
				&zk.DeleteRequest{Path: dir + "/" + node, Version: -1},
				&zk.SetDataRequest{Path: dir, Data: []byte("fairlock1 " + node), Version: -1},
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := root + "-" + name[len(name)-5:]
			dir := root + "/x"
			stranger := e.Client(t)
			one, two := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
			holder := one.Lock(t, "x")
			stand := func() (node string, r *recipetest.Request) {
				path, err := stranger.Create(dir+"/"+lie.node, nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				r = two.Begin(recipetest.Bounded(t), "x")
				lined(t, stranger, dir, 3)
				line, err := two.Queue(recipetest.Bounded(t), "x")
				require.NoError(t, err)
				recipetest.Until(t, "watches", func() bool { return two.watches(t, e, path) && two.watches(t, e, line[2].Key) })
				return path[len(dir)+1:], r
			}
			node, r := stand()
			_, err := stranger.Multi(lie.ops(dir, node)...)
			require.NoError(t, err)
			h := r.Granted(t)
			assert.ErrorIs(t, two.disbelieved(t, h), session.ErrLost)
			lined(t, stranger, dir, 1)

			node, r = stand()
			_, err = stranger.Multi(lie.ops(dir, node)...)
			require.NoError(t, err)
			lined(t, stranger, dir, 2)
			recipetest.Until(t, "a watch on the holder", func() bool { return two.watches(t, e, recipetest.Refs(holder)[0].Key) })
			r.Waits(t)
			require.NoError(t, context.Cause(holder.Context()))
			recipetest.Unlock(t, holder)
			recipetest.Unlock(t, r.Granted(t))
			one.Kept(t)
		})
	}
}

// disbelieved waits for the end of a hold that should not be, and returns its cause.
func (p *lockClient) disbelieved(t *testing.T, h *session.Hold) error {
	t.Helper()
	took := metronome.Time(func() { recipetest.Wait(t, h.Context().Done(), "the end of a hold that should not be") })
	t.Log("ended after", took)
	assert.Less(t, took, time.Second)
	cause := context.Cause(h.Context())
	var lost *session.LostError
	require.ErrorAs(t, cause, &lost)
	p.Log.WaitFor(t, "may have been granted twice") // a moment later
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
	return cause
}

// watches says whether the server knows of a watch of the party's on a node.
func (p *lockClient) watches(t testing.TB, e *zktest.Ensemble, path string) bool {
	t.Helper()
	said, err := e.Member(0).Command(recipetest.Bounded(t), "wchp")
	require.NoError(t, err)
	on := ""
	for line := range strings.Lines(said) {
		if session, ok := strings.CutPrefix(line, "\t"); !ok {
			on = strings.TrimSpace(line)
		} else if on == path && strings.TrimSpace(session) == p.Service() {
			return true
		}
	}
	return false
}

// TestAnOperatorWhoWritesAnEntryIsNotBelievedForLong: only the login "super" may
// write an entry that is not its own. If it does, the one behind takes that for
// the word of a holder. It finds out a moment later, ends its session, and asks
// for the truth from then on.
func TestAnOperatorWhoWritesAnEntryIsNotBelievedForLong(t *testing.T) {
	t.Parallel()
	const user, password, root = "super", "of this test", "/sealed"
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{
		"zookeeper.DigestAuthenticationProvider.superDigest": zk.DigestACL(zk.PermAll, user, password)[0].ID,
	}})
	conn := e.Client(t)
	one, two, three := newClient(t, root, recipetest.CalmTTL), newClient(t, root, recipetest.CalmTTL), newClient(t, root, recipetest.CalmTTL)
	for _, p := range []*lockClient{one, two, three} {
		p.open(t, e.Endpoints()...)
	}
	holder := one.Lock(t, "x")
	second := two.Begin(recipetest.Bounded(t), "x")
	lined(t, conn, root+"/x", 2)
	third := three.Begin(recipetest.Bounded(t), "x")
	lined(t, conn, root+"/x", 3)
	middle := func() string { // the entry of the one who waits behind the holder
		line, err := one.Queue(recipetest.Bounded(t), "x")
		require.NoError(t, err)
		return line[1].Key
	}
	<-time.After(50 * time.Millisecond) // for the watches to stand
	_, err := conn.Set(middle(), []byte("yield"), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth, "others may not")

	require.NoError(t, conn.AddAuth("digest", []byte(user+":"+password)))
	_, err = conn.Set(middle(), []byte("yield"), -1)
	require.NoError(t, err)
	h := third.Granted(t)
	assert.ErrorContains(t, three.disbelieved(t, h), "super")

	again := three.Begin(recipetest.Bounded(t), "x")
	lined(t, conn, root+"/x", 3)
	<-time.After(50 * time.Millisecond)
	_, err = conn.Set(middle(), []byte("yield"), -1)
	require.NoError(t, err)
	<-time.After(20 * time.Millisecond)
	again.Waits(t)
	second.Waits(t)
	recipetest.Unlock(t, holder)
	recipetest.Unlock(t, second.Granted(t))
	recipetest.Unlock(t, again.Granted(t))
}
