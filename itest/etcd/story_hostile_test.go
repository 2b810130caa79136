package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// strangerKeys are what somebody may call a key in a line: in our form, nearly in
// our form, and in none.
func strangerKeys(lease clientv3.LeaseID) []string {
	ours := fmt.Sprintf("%x", int64(lease))
	return []string{
		ours + ".0", ours + ".1.r", ours + ".2.w1", ours + ".3.w9223372036854775807", ours + ".4.v", ours + ".5.w3.v", ours + ".6.r.v",
		ours + ".-7", ours + ".8.w-1", ours + ".9.w1e99", ours + ".10.w99999999999999999999", ours + ".2147483648",
		ours + ".99999999999999999999", ours + ".0x1", ours + ".01", ours, ours + ".", "." + ours, "-" + ours + ".0",
		"fffffffffffffffff.0", "ffffffffffffffff.0", "0.0", "x", "\xff\xfe.0", "%beside", "%fence", "a/b", "/", "//", "..",
		"w-1", ".v", ".r", strings.Repeat("k", 20_000),
	}
}

// mostBytes is close to what a server takes in one request.
const mostBytes = 900 << 10

// strangersIn puts some of them there, and one of whom nothing is known.
func strangersIn(t testing.TB, client *clientv3.Client, prefix string, from, to int) both.Strangers {
	ctx := recipetest.Bounded(t)
	grant := func() clientv3.LeaseID {
		l, err := client.Grant(ctx, 120)
		require.NoError(t, err)
		return l.ID
	}
	put := func(key, value string, lease clientv3.LeaseID) {
		_, err := client.Put(ctx, prefix+key, value, clientv3.WithLease(lease))
		require.NoError(t, err)
	}
	most, last := grant(), grant()
	keys, values := strangerKeys(most), both.Values(mostBytes)
	for i := from; i < to; i++ {
		put(keys[i], values[i%len(values)], most)
		// Once more: what was written since is taken to say something.
		put(keys[i], values[i%len(values)], most)
	}
	put("last", values[from%len(values)], last)
	revoke := func(id clientv3.LeaseID) {
		_, err := client.Revoke(ctx, id)
		require.NoError(t, err)
	}
	return both.Strangers{Count: to - from + 1, Leave: func() func() {
		revoke(most)
		return func() { revoke(last) }
	}}
}

// strangersBeside has somebody write what lies beside the lines.
func strangersBeside(t *testing.T) {
	_, client, root := shared.use(t)
	one := newClient(t, root, recipetest.CalmTTL).open(t, client)
	two := newClient(t, root, recipetest.CalmTTL).open(t, client)
	put := func(t *testing.T, name, key, value string) {
		_, err := client.Put(recipetest.Bounded(t), root+"/%beside/"+name+"/"+key, value)
		require.NoError(t, err)
	}
	t.Run("limits", func(t *testing.T) {
		for i, value := range []string{
			"-1", "0", "1e99", "", " 8", "08", "+8", "8\x00", "NaN", "99999999999999999999", "-9223372036854775808", strings.Repeat("9", 1<<20),
		} {
			name := fmt.Sprint("limit", i)
			sem := semaphore.New(one.Session, name, 2)
			h, err := sem.Acquire(recipetest.Bounded(t), 2)
			require.NoError(t, err)
			waiter := one.BeginWith(func() (*session.Hold, error) {
				return semaphore.New(two.Session, name, 2).Acquire(recipetest.Bounded(t), 2)
			})
			recipetest.Until(t, "a waiter", func() bool { es, err := sem.Queue(recipetest.Bounded(t)); return err == nil && len(es) == 2 })
			put(t, name, "limit", value)
			refused(t, sem, waiter)
			assert.NoError(t, context.Cause(h.Context()), "who holds goes on")
			recipetest.Unlock(t, h)
			require.NoError(t, sem.Resize(recipetest.Bounded(t), 2))
			h, err = sem.Acquire(recipetest.Bounded(t), 2)
			require.NoError(t, err)
			recipetest.Unlock(t, h)
		}
	})
	t.Run("numbers", func(t *testing.T) {
		keys := []string{"slot/-1", "slot/+1", "slot/01", "slot/0x1", "slot/", "slot/99999999999999999999", "slot/a/b", "slot/\xff"}
		for i, value := range append(both.Values(mostBytes), "5 ", "5 x", "-5 x", " ", "5 "+strings.Repeat("k", 900<<10), "99999999999999999999 x") {
			name := fmt.Sprint("number", i)
			sem := semaphore.NewWith(one.Session, name, 3, semaphore.Options{Slots: true})
			put(t, name, "slot/0", value)
			for _, key := range keys {
				put(t, name, key, value)
			}
			h, err := sem.Acquire(recipetest.Bounded(t), 1)
			require.NoError(t, err, "%.40q", value)
			h2, err := sem.Acquire(recipetest.Bounded(t), 1)
			require.NoError(t, err, "%.40q", value)
			assert.NotEqual(t, h.Slot(), h2.Slot())
			for _, h := range []*session.Hold{h, h2} {
				assert.GreaterOrEqual(t, h.Slot(), 0)
				recipetest.Unlock(t, h)
			}
		}
	})
	t.Run("ledgers", func(t *testing.T) {
		for i, value := range append(both.Values(mostBytes), `{"v":1,"entry":"x","place":9223372036854775807}`, `{"v":1,"entry":"","place":-1,"died":true}`) {
			name := fmt.Sprint("ledger", i)
			take := func(p *lockClient) *session.Hold {
				h, err := mutex.NewWith(p.Session, name, mutex.Options{Robust: true}).Lock(recipetest.Bounded(t))
				require.NoError(t, err, "%.40q", value)
				return h
			}
			put(t, name, "ledger", value)
			recipetest.Unlock(t, take(one))
			h := take(two)
			assert.Equal(t, session.PastClean, h.Previous(), "after a hold that was given back: %.40q", value)
			recipetest.Unlock(t, h)
		}
	})
	t.Run("what entries say", func(t *testing.T) {
		for i, value := range both.Values(mostBytes) {
			name := fmt.Sprint("meta", i)
			h, err := election.New(one.Session, name).Campaign(recipetest.Bounded(t), "me")
			require.NoError(t, err)
			entry := strings.TrimPrefix(h.Refs()[0].Key, root+"/"+name+"/")
			put(t, name, "meta/"+entry, value)
			l, err := election.New(two.Session, name).Leader(recipetest.Bounded(t))
			require.NoError(t, err)
			assert.Equal(t, "me", l.Value)
			recipetest.Unlock(t, h)
		}
	})
	one.Kept(t)
	two.Kept(t)
}

// refused has a limit that cannot be read told to who waits and to who asks.
func refused(t *testing.T, sem *semaphore.Semaphore, waiter *recipetest.Request) {
	t.Helper()
	ctx := recipetest.Bounded(t)
	begin := time.Now()
	recipetest.Wait(t, waiter.Done, "the end of the waiting")
	_, aerr := sem.Acquire(ctx, 1)
	_, lerr := sem.Limit(ctx)
	for what, err := range map[string]error{"waiter": waiter.Err, "acquire": aerr, "limit": lerr} {
		require.ErrorIs(t, err, session.ErrRefused, what)
		assert.Less(t, len(err.Error()), 500, what)
		assert.ErrorContains(t, err, "limit", what)
	}
	assert.Less(t, time.Since(begin), recipetest.Relooks, "told by an event")
}
