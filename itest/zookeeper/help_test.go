package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/heard"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

const (
	// patience bounds what should take milliseconds on a machine that is busy.
	patience = 20 * time.Second

	// calmTTL is for sessions whose expiry is not what the story is about: a
	// busy machine must not cost them their entries. The engine's look without
	// an event then comes after relooks at the earliest, so that a grant that
	// comes sooner was not its doing.
	calmTTL = 20 * time.Second
	relooks = 15 * time.Second
)

// now is the clock that all processes of this machine share.
func now() driver.Instant { return driver.SystemClock().Now() }

// sharedServer is one server that every test may use that does it no harm.
type sharedServer struct {
	mu       sync.Mutex
	ensemble *zktest.Ensemble
	tests    int
}

var shared sharedServer

// use returns the shared server, and a root for this test alone.
func (s *sharedServer) use(t testing.TB) (e *zktest.Ensemble, root string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ensemble == nil {
		var err error
		s.ensemble, err = zktest.Start(context.Background(), nil)
		require.NoError(t, err)
	}
	s.tests++
	return s.ensemble, fmt.Sprint("/root", s.tests)
}

func (s *sharedServer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ensemble == nil {
		return nil
	}
	return s.ensemble.Close()
}

// proxyOf is a way of its own to a member, to be broken.
func proxyOf(t testing.TB, e *zktest.Ensemble, member int) *tcpproxy.Proxy {
	t.Helper()
	p, err := tcpproxy.New(e.Member(member).Direct(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// bounded is a context for what must not hang.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wait fails the test if ch is not closed, or has nothing, for too long.
func wait[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.Fail(t, "waited in vain", what)
		panic("unreachable")
	}
}

// until polls what no event tells of: counters of proxies and of servers.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			require.Fail(t, "waited in vain", what)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
}

// party is a Session with what its hooks and its log said.
type party struct {
	*session.Session
	opts zkbackend.Options // to be changed before open
	log  heard.Words

	mu                     sync.Mutex
	joined, lost, rejoined []session.Event
	opened                 []string // the service sessions, in order
}

// newParty prepares a party; open makes its Session.
func newParty(t testing.TB, root string, ttl time.Duration) *party {
	p := &party{}
	note := func(to *[]session.Event) func(session.Event) {
		return func(ev session.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			*to = append(*to, ev)
		}
	}
	p.opts = zkbackend.Options{Root: root, TickTime: 100 * time.Millisecond, Session: session.Options{
		TTL:   ttl,
		Label: t.Name()[strings.LastIndexByte(t.Name(), '/')+1:],
		Hooks: session.Hooks{
			Joined: note(&p.joined), SessionLost: note(&p.lost), Rejoined: note(&p.rejoined),
			SessionOpened: func(ev session.Event) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.opened = append(p.opened, ev.Session)
			},
		},
		Logger: p.log.Logger(t),
	}}
	return p
}

// open opens the Session on some servers.
func (p *party) open(t testing.TB, servers ...string) *party {
	t.Helper()
	var err error
	p.Session, err = zkbackend.Open(bounded(t), servers, &p.opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// kept fails the test if the party lost a session or a place.
func (p *party) kept(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, p.lost, "lost sessions")
	assert.Empty(t, p.rejoined, "lost places")
}

// stands waits until the party has got its n-th place in a line.
func (p *party) stands(t testing.TB, n int) {
	t.Helper()
	until(t, "a place in the line", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.joined) >= n
	})
}

// service is the newest service session.
func (p *party) service() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[len(p.opened)-1]
}

// request is a Lock, or one of its kind, under way.
type request struct {
	done chan struct{} // closed when Lock has returned
	hold *session.Hold
	err  error
	at   driver.Instant
}

// ask calls Lock. That ends at the latest when the Session is closed.
func (p *party) ask(ctx context.Context, name string) *request {
	return p.askFor(func() (*session.Hold, error) { return mutex.New(p.Session, name).Lock(ctx) })
}

// askFor asks for a hold in any way.
func (p *party) askFor(want func() (*session.Hold, error)) *request {
	r := &request{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.hold, r.err = want()
		r.at = now()
	}()
	return r
}

// granted waits for the hold.
func (r *request) granted(t testing.TB) *session.Hold {
	t.Helper()
	wait(t, r.done, "a grant")
	require.NoError(t, r.err)
	return r.hold
}

// waits fails the test if Lock has returned.
func (r *request) waits(t testing.TB) {
	t.Helper()
	select {
	case <-r.done:
		require.Fail(t, "Lock has returned", "hold %v, error %v", r.hold, r.err)
	default:
	}
}

// lock is ask and granted.
func (p *party) lock(t testing.TB, name string) *session.Hold {
	t.Helper()
	return p.ask(bounded(t), name).granted(t)
}

// givenBack accepts that the answer to an Unlock may not come in time while the
// service is in trouble. The delete is finished in the background then.
func givenBack(t testing.TB, h *session.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		assert.ErrorIs(t, err, session.ErrReleasePending)
	}
}

// children are the names in a folder, nil if there is no such folder.
func children(t testing.TB, conn *zk.Conn, dir string) []string {
	t.Helper()
	_, err := conn.Sync("/")
	require.NoError(t, err)
	names, _, err := conn.Children(dir)
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err, dir)
	}
	return names
}

// lined waits until a folder has so many children.
func lined(t testing.TB, conn *zk.Conn, dir string, n int) []string {
	t.Helper()
	var names []string
	until(t, fmt.Sprintf("%d children in %s", n, dir), func() bool {
		names = children(t, conn, dir)
		return len(names) == n
	})
	return names
}

// made is how many children a folder has ever had: what ZooKeeper shows as
// Cversion is creations plus deletions.
func made(t testing.TB, conn *zk.Conn, dir string) int {
	t.Helper()
	_, stat, err := conn.Get(dir)
	require.NoError(t, err, dir)
	return int(uint32(stat.Cversion+stat.NumChildren) / 2)
}

// ownerOf is the service session that keeps a node alive.
func ownerOf(t testing.TB, conn *zk.Conn, path string) string {
	t.Helper()
	there, stat, err := conn.Exists(path)
	require.NoError(t, err, path)
	require.True(t, there, path)
	return "0x" + strconv.FormatUint(uint64(stat.EphemeralOwner), 16)
}

// deletion tells when the server deletes a node that is there now.
func deletion(t testing.TB, conn *zk.Conn, path string) <-chan driver.Instant {
	t.Helper()
	_, err := conn.Sync("/") // another server may have made it
	require.NoError(t, err)
	there, _, events, err := conn.ExistsW(path)
	require.NoError(t, err, path)
	require.True(t, there, path)
	gone := make(chan driver.Instant, 1)
	go func() {
		if ev := <-events; ev.Type == zk.EventNodeDeleted {
			gone <- now()
		}
	}()
	return gone
}

// ended tells when a hold's context ends.
func ended(h *session.Hold) <-chan driver.Instant {
	end := make(chan driver.Instant, 1)
	go func() {
		<-h.Context().Done()
		end <- now()
	}()
	return end
}

// each calls f for all numbers below n, some at a time.
func each(n int, f func(i int)) {
	const atOnce = 64
	var wg sync.WaitGroup
	for w := range min(n, atOnce) {
		wg.Go(func() {
			for i := w; i < n; i += atOnce {
				f(i)
			}
		})
	}
	wg.Wait()
}
