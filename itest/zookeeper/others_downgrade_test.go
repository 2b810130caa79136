package zookeeper

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// TestTheDowngradeOfCuratorsWriterLetsNoWriterIn makes the nodes that Curator makes since
// 5.2 (CURATOR-621) when a client with the write lock acquires the read lock and then
// releases the write lock: a reader with the writer's number, and the end of the writer. It
// is the reader that our writer must wait for.
func TestTheDowngradeOfCuratorsWriterLetsNoWriterIn(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	ours, theirs := newClient(t, root, 10*time.Second).open(t, e.Endpoints()...), e.Client(t)
	acl := zk.WorldACL(zk.PermAll)
	first, err := rwlock.New(ours.Session, "rw").Lock(recipetest.Bounded(t)) // it makes the folder
	require.NoError(t, err)
	writer, err := theirs.Create(root+"/rw/_c_0a1b2c3d-0000-0000-0000-000000000000-__WRIT__", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	require.NoError(t, err)
	request := ours.BeginWith(func() (*session.Hold, error) { return rwlock.New(ours.Session, "rw").Lock(recipetest.Bounded(t)) })
	awaitEntries(t, theirs, root+"/rw", 3)
	recipetest.Unlock(t, first)
	recipetest.Until(t, "Curator's writer is first", func() bool {
		queue, err := ours.Queue(t.Context(), "rw")
		return err == nil && len(queue) == 2 && queue[0].Foreign
	})

	reader := strings.Replace(writer, "__WRIT__", "__READ__", 1)
	_, err = theirs.Create(reader, nil, zk.FlagEphemeral, acl)
	require.NoError(t, err)
	require.NoError(t, theirs.Delete(writer, -1))

	select {
	case <-request.Done:
		require.FailNow(t, "our writer holds next to Curator's reader")
	case <-time.After(time.Second): // a grant takes some milliseconds
	}
	require.NoError(t, theirs.Delete(reader, -1))
	<-request.Done
	require.NoError(t, request.Err)
	recipetest.Unlock(t, request.Hold)
	awaitEmpty(t, theirs, root+"/rw")
}

// TestCuratorsWriterThatReadsTooKeepsOthersOut makes the nodes of a client of Curator that has the
// write lock and acquires the read lock: a writer and a reader with one number, in any order of
// their names.
func TestCuratorsWriterThatReadsTooKeepsOthersOut(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	ours, theirs := newClient(t, root, 10*time.Second).open(t, e.Endpoints()...), e.Client(t)
	acl := zk.WorldACL(zk.PermAll)
	l := rwlock.New(ours.Session, "rw")
	first, err := l.Lock(recipetest.Bounded(t)) // it makes the folder
	require.NoError(t, err)
	recipetest.Unlock(t, first)
	const of = "/rw/_c_0a1b2c3d-0000-0000-0000-000000000000-"
	writer, err := theirs.Create(root+of+"__WRIT__", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	require.NoError(t, err)
	reader := strings.Replace(strings.Replace(writer, "__WRIT__", "__READ__", 1), "_c_0a", "_c_fa", 1)
	_, err = theirs.Create(reader, nil, zk.FlagEphemeral, acl)
	require.NoError(t, err)
	var requests []*recipetest.Request
	for range 2 {
		requests = append(requests, ours.BeginWith(func() (*session.Hold, error) { return l.RLock(recipetest.Bounded(t)) }))
		awaitEntries(t, theirs, root+"/rw", 2+len(requests))
	}
	waits := func(while string) {
		select {
		case <-requests[0].Done:
		case <-requests[1].Done:
		case <-hang.Ending(t, time.Second).Done(): // a grant takes some milliseconds
			return
		}
		require.FailNow(t, "our reader holds next to Curator's writer", while)
	}

	waits("which reads too")
	require.NoError(t, theirs.Delete(reader, -1))
	waits("which has stopped reading")
	require.NoError(t, theirs.Delete(writer, -1))

	for _, r := range requests {
		<-r.Done
		require.NoError(t, r.Err)
		recipetest.Unlock(t, r.Hold)
	}
	awaitEmpty(t, theirs, root+"/rw")
}
