package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// openChild is the client of a process that package child has started.
func openChild(ctx context.Context, j child.Job) (*child.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: j.Servers, DialTimeout: recipetest.Patience})
	if err != nil {
		return nil, err
	}
	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{Root: j.Root, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &child.Client{
		Session: s, Close: client.Close,
		Guard: func(h *session.Hold) child.Write {
			guard := etcdbackend.Guard(h)
			return func(ctx context.Context, key, value string) (bool, error) {
				return guarded(ctx, client, guard, key, value)
			}
		},
	}, nil
}

// guarded writes a key if the guard holds, and says whether it did.
func guarded(ctx context.Context, client *clientv3.Client, guard []clientv3.Cmp, key, value string) (bool, error) {
	resp, err := client.Txn(ctx).If(guard...).Then(clientv3.OpPut(key, value)).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

// TestTwentyProcessesTakeTurnsInOrder and the next test are alone on the
// machine, unlike the stories: they keep it busy.
func TestTwentyProcessesTakeTurnsInOrder(t *testing.T) {
	cluster, client, root := shared.use(t)
	witness := watchPrefix(t, client, root+"/")
	turns := child.Job{
		Do: child.Turns, Servers: cluster.Endpoints(), Root: root, Name: "x", TTL: recipetest.CalmTTL, Turns: 10,
	}.TakenByMany(t, 20)

	checkTurns(t, witness, turns)
	child.LogPace(t, turns)
}

func TestAHundredGoroutinesTakeTurnsInOrder(t *testing.T) {
	const goroutines, each = 100, 5
	_, client, root := shared.use(t)
	witness := watchPrefix(t, client, root+"/")
	p := newClient(t, root, recipetest.CalmTTL).open(t, client)
	m := mutex.New(p.Session, "x")
	reports := make(chan child.Turn, goroutines*each)
	for range goroutines {
		go func() { // ends with its turns, or with the Session
			for range each {
				_ = m.Do(context.Background(), func(_ context.Context, h *session.Hold) error {
					u := child.TurnOf(h)
					u.End = recipetest.Now()
					reports <- u
					return nil
				})
			}
		}()
	}
	var turns []child.Turn
	for range goroutines * each {
		turns = append(turns, recipetest.Wait(t, reports, "a turn"))
	}

	p.Kept(t)
	checkTurns(t, witness, turns)
	child.LogPace(t, turns)
}

func stoppedHolderIsRefused(t *testing.T) {
	const ttl = 2 * time.Second
	cluster, client, root := shared.use(t)
	witness := watchPrefix(t, client, root+"/x/")
	key := root + "-result"
	resource := child.NewResource(t)
	old := child.Job{
		Do: child.Hold, Servers: cluster.Endpoints(), Root: root, Name: "x", TTL: ttl, Key: key, Resource: resource.URL,
	}.Start(t)
	held := child.Report[child.Held](t, old)
	p := newClient(t, root, recipetest.CalmTTL).open(t, client)
	next := p.Begin(recipetest.Bounded(t), "x")
	witness.sees(t, 2)

	stopped := recipetest.Now()
	old.Stop(t)
	h := next.Granted(t)
	gone := witness.seesEnd(t, session.Token(held.Token))
	ok, err := guarded(recipetest.Bounded(t), client, etcdbackend.Guard(h), key, "in time")
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, resource.Put(h.Token()))
	old.Tell(t, "write") // it reads that first when it goes on
	old.Continue(t)
	r := child.Report[child.Written](t, old)
	old.Ends(t)

	r.Refused(t, held.Token, h)
	ok, err = guarded(recipetest.Bounded(t), client, etcdbackend.Guard(h), key, "still in time")
	require.NoError(t, err)
	assert.True(t, ok)
	value, err := client.Get(recipetest.Bounded(t), key)
	require.NoError(t, err)
	assert.Equal(t, "still in time", string(value.Kvs[0].Value))
	assert.EqualValues(t, 2, value.Kvs[0].Version, "writes that went through")
	t.Logf("stopped holder's entry gone after %s, next granted %s later; the holder knew %s after it went on: %s",
		gone.Sub(stopped), next.At.Sub(gone), r.Told, r.Cause)
	recipetest.Unlock(t, h)
	p.Kept(t)
	witness.seesNothingLeft(t)
}
