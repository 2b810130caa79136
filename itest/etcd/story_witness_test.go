package etcd

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// sighting is the life of one entry as the server tells it.
type sighting struct {
	key         string
	token       int64 // its create revision
	made, ended driver.Instant
}

// witness watches a prefix at the server, independently of what is tested.
type witness struct {
	client *clientv3.Client
	prefix string

	mu      sync.Mutex
	entries []*sighting // in the order of creation
	ended   []int64     // tokens in the order of deletion
	loose   []string    // fences that no session's end removes
	changed chan struct{}
}

// watchPrefix begins to watch.
func watchPrefix(t testing.TB, client *clientv3.Client, prefix string) *witness {
	t.Helper()
	w := &witness{client: client, prefix: prefix, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	events := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	require.True(t, recipetest.Wait(t, events, "the witness's watch").Created)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for resp := range events {
			w.see(resp.Events)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *witness) see(events []*clientv3.Event) {
	at := recipetest.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range events {
		switch {
		case stays(string(ev.Kv.Key)), isRecord(ev.Kv.Key):
		case isFence(ev.Kv.Key):
			if ev.Type == clientv3.EventTypePut && ev.Kv.Lease == 0 {
				w.loose = append(w.loose, string(ev.Kv.Key))
			}
		case ev.IsCreate():
			w.entries = append(w.entries, &sighting{key: string(ev.Kv.Key), token: ev.Kv.CreateRevision, made: at})
		case ev.Type == clientv3.EventTypeDelete:
			i := slices.IndexFunc(w.entries, func(s *sighting) bool { return s.token == ev.PrevKv.CreateRevision })
			if i >= 0 {
				w.entries[i].ended = at
				w.ended = append(w.ended, w.entries[i].token)
			}
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait waits until what was seen meets a condition.
func (w *witness) wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	timeout := time.After(recipetest.Patience)
	for {
		w.mu.Lock()
		ok, changed := cond(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			require.Fail(t, "the server never showed it", what)
		}
	}
}

// sees waits for n entries made so far, and returns their tokens in order.
func (w *witness) sees(t testing.TB, n int) []int64 {
	t.Helper()
	w.wait(t, fmt.Sprint(n, " entries made"), func() bool { return len(w.entries) >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	tokens := make([]int64, len(w.entries))
	for i, s := range w.entries {
		tokens[i] = s.token
	}
	return tokens
}

// seesEnd waits for the end of an entry, and says when it was told.
func (w *witness) seesEnd(t testing.TB, token session.Token) (at driver.Instant) {
	t.Helper()
	w.wait(t, fmt.Sprint("the end of ", token), func() bool {
		for _, s := range w.entries {
			if s.token == int64(token) {
				at = s.ended
			}
		}
		return at != 0
	})
	return at
}

// seesNothingLeft waits until all that was made is gone, or goes with its session,
// and checks that with the server.
func (w *witness) seesNothingLeft(t testing.TB) {
	t.Helper()
	w.wait(t, "nothing left", func() bool { return len(w.ended) == len(w.entries) })
	r, err := w.client.Get(recipetest.Bounded(t), w.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	kvs := slices.DeleteFunc(r.Kvs, func(kv *mvccpb.KeyValue) bool { return stays(string(kv.Key)) || isFence(kv.Key) })
	assert.Empty(t, kvs, "left under %q", w.prefix)
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.loose, "would be left after the session")
}

// stays says that a key is meant to stay: a limit, or a ledger.
func stays(key string) bool {
	return strings.Contains(key, "/%beside/") && (strings.HasSuffix(key, "/limit") || strings.HasSuffix(key, "/ledger"))
}

// isRecord reports whether a key is the record of a grant. It goes with its entry.
func isRecord(key []byte) bool { return bytes.Contains(key, []byte("/held/")) }

// isFence says that a key is that of a join that was not answered in time.
func isFence(key []byte) bool { return bytes.Contains(key, []byte("/%fence/")) }

// checkTurns is child.CheckTurns for all entries that a witness saw.
func checkTurns(t testing.TB, w *witness, turns []child.Turn) {
	t.Helper()
	made := w.sees(t, len(turns))
	w.seesNothingLeft(t)
	w.mu.Lock()
	ended := slices.Clone(w.ended)
	w.mu.Unlock()
	child.CheckTurns(t, turns, func(u child.Turn) int64 { return u.Token }, made, ended)
}
