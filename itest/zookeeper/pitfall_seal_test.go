package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

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
	conn := e.Conn(t)
	one, two, three := newClient(t, root, recipetest.CalmTTL), newClient(t, root, recipetest.CalmTTL), newClient(t, root, recipetest.CalmTTL)
	for _, p := range []*lockClient{one, two, three} {
		p.open(t, e.Servers()...)
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
	begin := recipetest.Now()
	recipetest.Wait(t, h.Context().Done(), "the end of a hold that should not be")
	t.Log("ended after", recipetest.Now().Sub(begin))
	assert.Less(t, recipetest.Now().Sub(begin), time.Second)
	var lost *session.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	assert.ErrorContains(t, lost, "super")
	three.Log.WaitFor(t, "may have been granted twice") // a moment later
	require.ErrorIs(t, h.Unlock(), session.ErrLost)

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
