package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

// started is a server as its clients see it.
type started struct {
	*counters
	address string
	stop    func() error // shuts it down, as SIGTERM does
}

func start(t *testing.T, etcd *etcdtest.Cluster, folder string, wait time.Duration) *started {
	t.Helper()
	s, err := etcdbackend.Dial(hang.Context(t), etcdbackend.DialConfig{Endpoints: etcd.Endpoints()}, &etcdbackend.Options{Session: session.Options{TTL: hang.Guard}})
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	a := &started{counters: &counters{locks: s, folder: folder, wait: wait}, address: l.Addr().String()}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, a.counters) }()
	a.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		assert.NoError(t, s.Close())
		return err
	})
	t.Cleanup(func() { assert.NoError(t, a.stop()) })
	return a
}

// post sends a request, and returns the status and the body of the answer.
func (a *started) post(ctx context.Context) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.address+"/counters/visits", nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(text)), errors.Join(err, answer.Body.Close())
}

func TestRequestsForAKeyAreServedOneAfterTheOther(t *testing.T) {
	const clients, each = 4, 4
	etcd, folder := etcdtest.New(t, nil), t.TempDir()
	servers := []*started{start(t, etcd, folder, hang.Guard), start(t, etcd, folder, hang.Guard)}
	seen := make(chan string, clients*each)
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			for range each {
				status, body, err := servers[i%2].post(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, http.StatusOK, status, body)
				seen <- body
			}
		})
	}
	wait.Wait()
	close(seen)
	counts := map[string]bool{}
	for count := range seen {
		counts[count] = true
	}

	assert.Len(t, counts, clients*each, "each request has had a count of its own")
	text, err := os.ReadFile(filepath.Join(folder, "visits"))
	require.NoError(t, err)
	assert.Equal(t, "16", string(text))
}

func TestARequestIsAnsweredWhenItCannotBeServed(t *testing.T) {
	etcd, folder := etcdtest.New(t, nil), t.TempDir()
	first, second := start(t, etcd, folder, hang.Guard), start(t, etcd, folder, 100*time.Millisecond)
	begun, ends := make(chan struct{}), make(chan struct{})
	first.work = func(ctx context.Context) {
		begun <- struct{}{}
		<-ctx.Done()
		ends <- struct{}{}
	}
	type answer struct {
		status int
		body   string
		err    error
	}
	answers := make(chan answer, 1)
	post := func(ctx context.Context) {
		var a answer
		a.status, a.body, a.err = first.post(ctx)
		answers <- a
	}
	ctx, goAway := context.WithCancel(t.Context())
	go post(ctx)
	hang.Receive(t, begun, "the request")
	status, body, err := second.post(t.Context())
	require.NoError(t, err)
	assert.Equal(t, http.StatusConflict, status, body)
	goAway()
	hang.Receive(t, ends, "the end of the work of a client that has gone")
	require.ErrorIs(t, hang.Receive(t, answers, "the answer").err, context.Canceled)

	go post(t.Context())
	hang.Receive(t, begun, "the request")
	entries, err := second.locks.Queue(t.Context(), "counters/visits")
	require.NoError(t, err)
	require.NoError(t, second.locks.Evict(t.Context(), entries[0])) // as an operator does
	hang.Receive(t, ends, "the end of the work without a lock")
	got := hang.Receive(t, answers, "the answer")
	require.NoError(t, got.err)
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.NoFileExists(t, filepath.Join(folder, "visits"))
}

func TestAShutdownFinishesTheRequestsUnderWay(t *testing.T) {
	etcd, folder := etcdtest.New(t, nil), t.TempDir()
	first, second := start(t, etcd, folder, hang.Guard), start(t, etcd, folder, hang.Guard)
	begun, goesOn := make(chan struct{}), make(chan struct{})
	first.work = func(context.Context) {
		begun <- struct{}{}
		<-goesOn
	}
	served := make(chan string, 1)
	go func() {
		_, body, err := first.post(t.Context())
		assert.NoError(t, err)
		served <- body
	}()
	hang.Receive(t, begun, "the request")
	stopped := make(chan error, 1)
	go func() { stopped <- first.stop() }()
	hang.Until(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", first.address)
		if err != nil {
			return true
		}
		assert.NoError(t, conn.Close())
		return false
	}, "new requests are refused")
	close(goesOn)

	assert.Equal(t, "1", hang.Receive(t, served, "the answer"))
	require.NoError(t, hang.Receive(t, stopped, "the shutdown"))
	entries, err := second.locks.Queue(t.Context(), "counters/visits")
	require.NoError(t, err)
	assert.Empty(t, entries)
}
