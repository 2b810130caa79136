package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// started is a worker that runs in the test's process.
type started struct {
	address string
	stop    context.CancelFunc
	ended   chan error
}

func start(t *testing.T, w *worker) *started {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r := &started{address: "http://" + listener.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- w.run(ctx, listener) }()
	t.Cleanup(stop)
	return r
}

// get returns an answer of the worker.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// eventually waits until a page contains a text.
func eventually(t *testing.T, url, want string) {
	t.Helper()
	body := ""
	hang.Until(t, func() bool {
		_, body = get(t, url)
		return strings.Contains(body, want)
	}, "%s: no %q", url, want)
}

func TestAWorkerShowsItsWaitAndLeavesNothingBehind(t *testing.T) {
	store := membackend.New()
	other, err := store.Open(t.Context(), nil)
	require.NoError(t, err)
	defer other.Close()
	h, err := mutex.New(other, "orders/settle").Lock(t.Context())
	require.NoError(t, err)

	w := start(t, &worker{on: "mem://", lock: "orders/settle", order: time.Millisecond, options: stores.Options{
		Memory: store, Session: session.Options{Label: "worker-1"},
	}})
	eventually(t, w.address+"/debug/fairlock/waits", ".(*worker).work\n")
	status, body := get(t, w.address+"/readyz")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "worker-1")
	status, _ = get(t, w.address+"/livez")
	assert.Equal(t, http.StatusOK, status)
	eventually(t, w.address+"/metrics", `fairlock_waiters{kind="mutex",lock="orders/settle"} 1`)

	require.NoError(t, h.Unlock())
	eventually(t, w.address+"/metrics", `fairlock_acquire_duration_seconds_count{kind="mutex",lock="orders/settle",mode="exclusive",outcome="granted"}`)
	w.stop()
	require.NoError(t, <-w.ended)
	q, err := other.Queue(t.Context(), "orders/settle")
	require.NoError(t, err)
	assert.Empty(t, q)
	status, _ = get(t, w.address+"/livez")
	assert.Zero(t, status, "the server has ended")
}

func TestAWorkerThatBeginsInAnOutageIsAliveAndEndsWhenStopped(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := closed.Addr().String()
	require.NoError(t, closed.Close())
	w := start(t, &worker{on: "etcd://" + address, lock: "orders/settle", options: stores.Options{Timeout: 100 * time.Millisecond}})
	eventually(t, w.address+"/livez", `"ok": true`)
	status, _ := get(t, w.address+"/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)

	w.stop()

	require.NoError(t, <-w.ended)
}

func TestAWrongServiceIsAnError(t *testing.T) {
	w := start(t, &worker{on: "postgres://127.0.0.1"})
	require.ErrorIs(t, <-w.ended, session.ErrInvalidOptions)
}

func TestSIGTERMEndsTheProgramWithoutError(t *testing.T) {
	program := filepath.Join(t.TempDir(), "worker")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), program, "-on", "mem://", "-listen", "127.0.0.1:0", "-order", "10ms")
	cmd.Stderr = os.Stderr
	text, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(text)
	require.True(t, lines.Scan(), "it has settled no order")
	assert.Contains(t, lines.Text(), "order settled, token ")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))

	for lines.Scan() { // until it ends
	}
	assert.NoError(t, cmd.Wait())
}
