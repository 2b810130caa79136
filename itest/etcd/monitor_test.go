package etcd

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// monitor watches a prefix at the server. It identifies entries by their tokens, because
// the keys of a session are used again.
type monitor struct {
	both.History[int64]

	client *clientv3.Client
	prefix string

	mu    sync.Mutex
	loose []string // guards that no session's end removes
}

// watchPrefix begins to watch.
func watchPrefix(t testing.TB, client *clientv3.Client, prefix string) *monitor {
	t.Helper()
	w := &monitor{client: client, prefix: prefix}
	w.Of, w.Left = func(u worker.Turn) int64 { return u.Token }, w.left
	ctx, cancel := context.WithCancel(context.Background())
	events := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	require.True(t, recipetest.Wait(t, events, "the monitor's watch").Created)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for resp := range events {
			for _, ev := range resp.Events {
				w.see(ev)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *monitor) see(ev *clientv3.Event) {
	switch {
	case stays(string(ev.Kv.Key)), isDetail(ev.Kv.Key):
	case isGuard(ev.Kv.Key):
		if ev.Type == clientv3.EventTypePut && ev.Kv.Lease == 0 {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.loose = append(w.loose, string(ev.Kv.Key))
		}
	case ev.IsCreate():
		w.Made(ev.Kv.CreateRevision)
	case ev.Type == clientv3.EventTypeDelete:
		w.Ended(ev.PrevKv.CreateRevision)
	}
}

// left checks that everything that was made has ended, or ends with its session.
func (w *monitor) left(t testing.TB) {
	t.Helper()
	r, err := w.client.Get(recipetest.Bounded(t), w.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	kvs := slices.DeleteFunc(r.Kvs, func(kv *mvccpb.KeyValue) bool { return stays(string(kv.Key)) || isGuard(kv.Key) })
	assert.Empty(t, kvs, "left under %q", w.prefix)
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.loose, "would be left after the session")
}

// stays reports whether a key is meant to stay: a limit, a ledger, or finished work.
func stays(key string) bool {
	_, record, side := strings.Cut(key, "/%v2/")
	return side && slices.Contains([]string{"limit", "ledger", "done"}, record[strings.LastIndexByte(record, '/')+1:])
}

// isDetail reports whether a key is the detail of an entry, with which it goes.
func isDetail(key []byte) bool { return bytes.Contains(key, []byte("/%detail/")) }

// isGuard reports whether a key keeps an unanswered request from being carried out late, or
// shows whether it was carried out, and stays until the session ends; or whether it shows that
// an entry was first when it left, and stays for some seconds.
func isGuard(key []byte) bool {
	return isFence(key) || bytes.Contains(key, []byte("/%witness/")) || bytes.Contains(key, []byte("/%first/"))
}
