package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zktest"
)

// entryName is what the name of an entry ends with, whoever made it.
var entryName = regexp.MustCompile(`(lock-|latch-|__(READ|WRIT|lock|rlock)__)-?[0-9]{10}$`)

// lookout watches all below a path at the server, independently of what is
// tested and of its client library: a persistent, recursive watch, which misses
// nothing and tells it in order. What it is not allowed to read it is not told of,
// so it is an admin.
type lookout struct {
	admin *zk.Conn
	root  string

	mu      sync.Mutex
	made    []string // paths of entries in the order of creation
	ended   []string // in the order of deletion
	at      map[string]driver.Instant
	changed chan struct{}
	err     error
}

// The kinds of watches and events that a lookout speaks of.
const (
	recursive   = 1
	nodeCreated = 1
	nodeDeleted = 2
)

// lookAt begins to watch; its end is that of the test.
func lookAt(t testing.TB, e *zktest.Ensemble, root string) *lookout {
	t.Helper()
	w := &lookout{admin: e.Conn(t), root: root, at: map[string]driver.Instant{}, changed: make(chan struct{})}
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

// packet reads one, and returns what stands behind its length.
func packet(r io.Reader) ([]byte, error) {
	f, err := zkframe.Read(r)
	if err != nil {
		return nil, err
	}
	return f[4:], nil
}

// see takes in an event: number, transaction, error, kind, state, path.
func (w *lookout) see(p []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { close(w.changed); w.changed = make(chan struct{}) }()
	if w.err = err; err != nil && errors.Is(err, net.ErrClosed) {
		w.err = nil
	}
	if len(p) < 28 || !entryName.Match(p) {
		return
	}
	path := string(p[28:])
	switch binary.BigEndian.Uint32(p[16:]) {
	case nodeCreated:
		w.made = append(w.made, path)
	case nodeDeleted:
		w.ended = append(w.ended, path)
		w.at[path] = recipetest.Now()
	}
}

// wait waits until what was seen meets a condition.
func (w *lookout) wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	timeout := time.After(recipetest.Patience)
	for {
		w.mu.Lock()
		ok, changed, err := cond(), w.changed, w.err
		w.mu.Unlock()
		if ok {
			return
		}
		require.NoError(t, err, "watch of %s", w.root)
		select {
		case <-changed:
		case <-timeout:
			require.Fail(t, "the server never showed it", what)
		}
	}
}

// sees waits for n entries made so far, and returns their paths in order.
func (w *lookout) sees(t testing.TB, n int) []string {
	t.Helper()
	w.wait(t, fmt.Sprint(n, " entries made"), func() bool { return len(w.made) >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.made)
}

// seesEnd waits for the end of an entry, and says when it was told.
func (w *lookout) seesEnd(t testing.TB, path string) (at driver.Instant) {
	t.Helper()
	w.wait(t, "the end of "+path, func() bool { at = w.at[path]; return at != 0 })
	return at
}

// seesNothingLeft waits until all entries that were made are gone, and checks
// that with the server.
func (w *lookout) seesNothingLeft(t testing.TB) {
	t.Helper()
	w.wait(t, "nothing left", func() bool { return len(w.ended) == len(w.made) })
	assert.Empty(t, entriesBelow(t, w.admin, w.root))
}

// checkTurns is child.CheckTurns for all entries that a lookout saw.
func (w *lookout) checkTurns(t testing.TB, turns []child.Turn) {
	t.Helper()
	made := w.sees(t, len(turns))
	w.seesNothingLeft(t)
	w.mu.Lock()
	ended := slices.Clone(w.ended)
	w.mu.Unlock()
	child.CheckTurns(t, turns, func(u child.Turn) string { return u.Key }, made, ended)
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
		if entryName.MatchString(c) {
			entries = append(entries, below)
		} else {
			entries = append(entries, entriesBelow(t, admin, below)...)
		}
	}
	return entries
}

// newest is the path of the entry that was made last, or the root.
func (w *lookout) newest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.made) == 0 {
		return w.root
	}
	return w.made[len(w.made)-1]
}
