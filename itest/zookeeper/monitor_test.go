package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zktest"
)

// monitor watches all nodes below a path at the server, independently of what is tested
// and of its client library: by a persistent, recursive watch, which misses nothing and
// reports it in order. It gets no events of nodes that it may not read, so it is an admin.
type monitor struct {
	both.History[string] // by their paths

	admin *zk.Conn
	root  string
}

// The kinds of watches and events that a monitor uses.
const (
	recursive   = 1
	nodeCreated = 1
	nodeDeleted = 2
)

// monitorOf begins to watch; its end is that of the test.
func monitorOf(t testing.TB, e *zktest.Ensemble, root string) *monitor {
	t.Helper()
	w := &monitor{admin: e.Client(t), root: root}
	w.Of, w.Left = func(u worker.Turn) string { return u.Key }, func(t testing.TB) { assert.Empty(t, entriesBelow(t, w.admin, root)) }
	socket, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Member(0).Direct())
	require.NoError(t, err)
	require.NoError(t, socket.SetDeadline(time.Now().Add(recipetest.Patience)))
	var b bytes.Buffer
	const admin = "admin:" + adminPassword
	for _, field := range []any{
		// The handshake: length, version, newest transaction, timeout, session,
		// password; the login: length, number, kind, 0, scheme, credentials; and
		// the watch: length, number, kind, path, mode.
		int32(44), int32(0), int64(0), int32(60_000), int64(0), int32(16), make([]byte, 16),
		int32(26 + len(admin)), int32(-4), int32(zkframe.OpLogin), int32(0), int32(6), []byte("digest"), int32(len(admin)), []byte(admin),
		int32(16 + len(root)), int32(1), int32(zkframe.OpAddWatch), int32(len(root)), []byte(root), int32(recursive),
	} {
		require.NoError(t, binary.Write(&b, binary.BigEndian, field))
	}
	_, err = socket.Write(b.Bytes())
	require.NoError(t, err)
	_, err = packet(socket)
	require.NoError(t, err, "handshake")
	for _, what := range []string{"login", "watch"} {
		answer, err := packet(socket)
		require.NoError(t, err, what)
		require.Zero(t, binary.BigEndian.Uint32(answer[12:]), what)
	}
	require.NoError(t, socket.SetDeadline(time.Time{}))
	done := make(chan struct{})
	go beats(socket, done)
	go func() {
		defer close(done)
		for {
			event, err := packet(socket)
			if w.see(event, err); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = socket.Close(); <-done })
	return w
}

// beats keeps the session of a socket alive until done is closed. see skips the answers.
func beats(socket net.Conn, done <-chan struct{}) {
	ping := []byte{3: 8, 4: 0xff, 5: 0xff, 6: 0xff, 7: 0xfe, 11: zkframe.OpPing} // length, number -2, kind
	for every := time.Tick(10 * time.Second); ; {
		select {
		case <-done:
			return
		case <-every:
			_, _ = socket.Write(ping) // the reader sees the error
		}
	}
}

// packet reads a packet, and returns it without its length.
func packet(r io.Reader) ([]byte, error) {
	f, err := zkframe.Read(r)
	if err != nil {
		return nil, err
	}
	return f[4:], nil
}

// see records an event: number, transaction, error, kind, state, path.
func (w *monitor) see(p []byte, err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		w.Failed(err)
	}
	if len(p) < 28 || !zkEntry.Match(p) {
		return
	}
	switch path := string(p[28:]); binary.BigEndian.Uint32(p[16:]) {
	case nodeCreated:
		w.Made(path)
	case nodeDeleted:
		w.Ended(path)
	}
}

// awaitEmpty waits until there is no entry below a path.
func awaitEmpty(t testing.TB, admin *zk.Conn, path string) {
	t.Helper()
	recipetest.Until(t, "the end of all entries below "+path, func() bool { return len(entriesBelow(t, admin, path)) == 0 })
}

// entriesBelow lists the entries at the server.
func entriesBelow(t testing.TB, admin *zk.Conn, path string) (entries []string) {
	t.Helper()
	_, err := admin.Sync("/")
	require.NoError(t, err)
	names, _, err := admin.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	require.NoError(t, err, path)
	for _, c := range names {
		below := strings.TrimSuffix(path, "/") + "/" + c
		if zkEntry.MatchString(c) {
			entries = append(entries, below)
		} else {
			entries = append(entries, entriesBelow(t, admin, below)...)
		}
	}
	return entries
}
