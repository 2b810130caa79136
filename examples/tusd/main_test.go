package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

func dial(t *testing.T, etcd *etcdtest.Cluster) *session.Session {
	t.Helper()
	s, err := etcdbackend.Dial(hang.Context(t), etcdbackend.DialConfig{Endpoints: etcd.Endpoints()}, &etcdbackend.Options{Session: session.Options{TTL: hang.Guard}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// started is a server as its clients see it.
type started struct {
	session *session.Session
	address string
	stop    func() error // shuts it down, as SIGTERM does
}

func start(t *testing.T, etcd *etcdtest.Cluster, folder string) *started {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &started{session: dial(t, etcd), address: l.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, a.session, folder) }()
	a.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { assert.NoError(t, a.stop()) })
	return a
}

// send sends a request of tus, and returns the status and the header of the answer.
func (a *started) send(t *testing.T, method, path string, body io.Reader, fields ...string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(hang.Context(t), method, "http://"+a.address+path, body)
	require.NoError(t, err)
	r.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, answer.Header
}

// upload makes an upload of some length, and returns its path.
func (a *started) upload(t *testing.T, length int) string {
	t.Helper()
	status, header := a.send(t, http.MethodPost, "/files/", nil, "Upload-Length", strconv.Itoa(length))
	require.Equal(t, http.StatusCreated, status)
	at, err := url.Parse(header.Get("Location"))
	require.NoError(t, err)
	return at.Path
}

// patch sends a part of an upload, from an offset on.
func (a *started) patch(t *testing.T, path string, offset int, body io.Reader) (int, http.Header) {
	t.Helper()
	return a.send(t, http.MethodPatch, path, body, "Content-Type", "application/offset+octet-stream", "Upload-Offset", strconv.Itoa(offset))
}

// stalled begins to send a part, as a client does whose connection then breaks. status has that of
// the answer.
func (a *started) stalled(t *testing.T, path, part string) (status <-chan int) {
	t.Helper()
	body, sends := io.Pipe()
	got := make(chan int, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://"+a.address+path, body)
		if !assert.NoError(t, err) {
			return
		}
		r.Header = http.Header{"Tus-Resumable": {"1.0.0"}, "Content-Type": {"application/offset+octet-stream"}, "Upload-Offset": {"0"}}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if assert.NoError(t, err) {
			assert.NoError(t, answer.Body.Close())
			got <- answer.StatusCode
		}
	}()
	_, err := io.WriteString(sends, part) // it returns when the transport has read all of it
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, sends.Close()) })
	return got
}

// holds waits until the upload of a path is locked, and a part of it is stored: tusd does not see
// an interruption that comes before it reads the body.
func holds(t *testing.T, s *session.Session, folder, path string) session.Entry {
	t.Helper()
	hang.Until(t, func() bool {
		stored, err := os.Stat(filepath.Join(folder, strings.TrimPrefix(path, "/files/")))
		return err == nil && stored.Size() > 0
	}, "a part of %s is stored", path)
	var entries []session.Entry
	hang.Until(t, func() bool {
		var err error
		entries, err = s.Queue(t.Context(), "uploads"+strings.TrimPrefix(path, "/files"))
		require.NoError(t, err)
		return len(entries) > 0
	}, "%s is locked", path)
	return entries[0]
}

func TestAClientResumesAtAnotherServer(t *testing.T) {
	etcd, folder := etcdtest.New(t, nil), t.TempDir()
	first, second := start(t, etcd, folder), start(t, etcd, folder)
	path := first.upload(t, 10)
	interrupted := first.stalled(t, path, "01234")
	holds(t, second.session, folder, path)

	var wait sync.WaitGroup
	for i := range 6 { // of several clients
		wait.Go(func() {
			status, header := []*started{first, second}[i%2].send(t, http.MethodHead, path, nil)
			assert.Equal(t, http.StatusOK, status)
			assert.NotEmpty(t, header.Get("Upload-Offset"))
		})
	}
	wait.Wait()
	assert.Equal(t, http.StatusBadRequest, hang.Receive(t, interrupted, "the end of the first request"))
	_, header := second.send(t, http.MethodHead, path, nil)
	offset, err := strconv.Atoi(header.Get("Upload-Offset"))
	require.NoError(t, err)
	status, header := second.patch(t, path, offset, strings.NewReader("0123456789"[offset:]))
	require.Equal(t, http.StatusNoContent, status)
	assert.Equal(t, "10", header.Get("Upload-Offset"))
	status, _ = second.patch(t, path, 0, strings.NewReader("x"))
	assert.Equal(t, http.StatusConflict, status, "the offset is behind")
}

func TestALostLockAndAShutdownInterruptAnUpload(t *testing.T) {
	etcd, folder := etcdtest.New(t, nil), t.TempDir()
	server, operator := start(t, etcd, folder), dial(t, etcd)
	path := server.upload(t, 10)
	interrupted := server.stalled(t, path, "0")
	require.NoError(t, operator.Evict(hang.Context(t), holds(t, operator, folder, path)))
	assert.Equal(t, http.StatusBadRequest, hang.Receive(t, interrupted, "the end of the request"))

	path = server.upload(t, 10)
	interrupted = server.stalled(t, path, "0")
	holds(t, operator, folder, path)
	require.NoError(t, server.stop())
	assert.Equal(t, http.StatusServiceUnavailable, hang.Receive(t, interrupted, "the end of the request"))
	entries, err := operator.Queue(hang.Context(t), "uploads"+strings.TrimPrefix(path, "/files"))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestTheLockerKeepsTheContractOfTusd(t *testing.T) {
	etcd := etcdtest.New(t, nil)
	watcher, locks := dial(t, etcd), make([]handler.Lock, 3)
	for i := range locks {
		lock, err := Locker{dial(t, etcd)}.NewLock("a")
		require.NoError(t, err)
		locks[i] = lock
	}
	asked := make(chan int, len(locks))
	lock := func(ctx context.Context, i int) error { return locks[i].Lock(ctx, func() { asked <- i }) }
	require.NoError(t, lock(hang.Context(t), 0))
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- lock(ctx, 1) }()
	assert.Equal(t, 0, hang.Receive(t, asked, "the request for the lock"))
	cancel()
	require.ErrorIs(t, hang.Receive(t, gaveUp, "the end of the wait"), handler.ErrLockTimeout)

	got := make(chan error, 1)
	go func() { got <- lock(hang.Context(t), 2) }()
	hang.Until(t, func() bool {
		entries, err := watcher.Queue(t.Context(), "uploads/a")
		require.NoError(t, err)
		return len(entries) == 2
	}, "the third waits")
	require.NoError(t, locks[0].Unlock())
	require.NoError(t, hang.Receive(t, got, "the lock"))
	require.NoError(t, locks[2].Unlock())
	assert.Empty(t, asked, "each holder is asked once, and none by its own request")
}
