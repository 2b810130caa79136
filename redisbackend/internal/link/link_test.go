package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/redisbackend/internal/fakeredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a finder and servers under several addresses.
type world struct {
	*Finder
	server fakeredis.Server

	mu     sync.Mutex
	down   map[string]bool
	master any // what a sentinel answers
	asked  []string
}

func newWorld(t *testing.T, change func(o *rueidis.ClientOption), addresses ...string) *world {
	t.Helper()
	w := &world{down: map[string]bool{}}
	w.server.Refuses = func(addr string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.down[addr] {
			return errors.New("connection refused")
		}
		return nil
	}
	w.server.Answer = func(c *fakeredis.Conn, command []string) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked = append(w.asked, fmt.Sprint(c.Addr, " ", command))
		if command[0] == "SENTINEL" {
			return w.master
		}
		return c.Addr
	}
	o := w.server.Option(addresses...)
	change(&o)
	f, err := NewFinder(o)
	require.NoError(t, err)
	w.Finder = f
	t.Cleanup(func() { <-time.After(time.Minute) }) // connections that were given up are closed by then
	return w
}

func plain(*rueidis.ClientOption) {}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// found returns the address of the server that a line connects to, or "" and the error.
func found(t *testing.T, l *Line) (string, error) {
	t.Helper()
	n, err := l.Node(t.Context())
	if err != nil {
		return "", err
	}
	echo, err := n.Do(t.Context(), n.B().Echo().Message("x").Build()).ToString()
	require.NoError(t, err)
	assert.Equal(t, n.Addr, echo, "it is connected to the server that it names")
	return n.Addr, nil
}

// drop gives the connection of a line up.
func drop(t *testing.T, l *Line, moved string) {
	t.Helper()
	n, err := l.Node(t.Context())
	require.NoError(t, err)
	l.Drop(n, moved)
	l.Drop(n, moved) // by another request on it
}

func TestAFinderNeedsAnAddress(t *testing.T) {
	_, err := NewFinder(rueidis.ClientOption{})
	require.Error(t, err)
}

func TestEachFailureLeadsToTheNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1", "b:2", "c:3")
		l := NewLine(w.Finder)
		defer l.Close()
		for _, want := range []string{"a:1", "b:2", "c:3", "a:1"} {
			addr, err := found(t, l)
			require.NoError(t, err)
			assert.Equal(t, want, addr)
			addr, err = found(t, l)
			require.NoError(t, err)
			assert.Equal(t, want, addr, "it stays as long as it is good")
			drop(t, l, "")
		}
		w.set(func() { w.down["b:2"], w.down["c:3"] = true, true })
		for range 2 {
			_, err := found(t, l)
			require.ErrorContains(t, err, "connection refused")
		}
		addr, err := found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "a:1", addr)
	})
}

func TestTheServerThatANodeNamesIsAskedUntilItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1", "b:2")
		l := NewLine(w.Finder)
		defer l.Close()
		drop(t, l, "c:3")
		addr, err := found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "c:3", addr)
		drop(t, l, "d:4")
		addr, err = found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "d:4", addr, "the slot has moved again")
		drop(t, l, "")
		addr, err = found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "b:2", addr)
	})
}

// A server that names itself does not take the writes.
func TestAServerThatNamesItselfIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1", "b:2")
		l := NewLine(w.Finder)
		defer l.Close()
		drop(t, l, "c:3")
		drop(t, l, "c:3")
		addr, err := found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "b:2", addr)
	})
}

func TestASentinelNamesTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "main" }, "s:1", "s:2")
		l := NewLine(w.Finder)
		defer l.Close()
		w.set(func() { w.master = []any{"m", "1"} })
		addr, err := found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "m:1", addr)
		w.set(func() { w.master = []any{"::1", "2"} })
		drop(t, l, "")
		addr, err = found(t, l)
		require.NoError(t, err)
		assert.Equal(t, "[::1]:2", addr, "it is asked for each connection")
		assert.Equal(t, "s:1 [SENTINEL GET-MASTER-ADDR-BY-NAME main]", w.asked[0])
		assert.Contains(t, w.asked, "s:2 [SENTINEL GET-MASTER-ADDR-BY-NAME main]")
	})
}

func TestASentinelThatNamesNoMasterIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			answer any
			text   string
		}{
			{nil, "it knows no such master"}, {[]any{"m"}, "it answers"}, {fakeredis.Error("NOPERM no"), "NOPERM"}, {fakeredis.Break{}, ""}, {fakeredis.Silent{}, ""},
		} {
			w := newWorld(t, func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "main" }, "s:1", "s:2")
			l := NewLine(w.Finder)
			w.set(func() { w.master = c.answer })
			began := time.Now()
			_, err := found(t, l)
			require.ErrorContains(t, err, `ask the sentinel s:1 for the master "main"`)
			require.ErrorContains(t, err, c.text)
			assert.LessOrEqual(t, time.Since(began), dialTimeout)
			w.set(func() { w.master = []any{"m", "1"} })
			_, err = found(t, l)
			require.NoError(t, err)
			assert.Equal(t, "s:2", w.server.Logins()[1], "%v", c.answer)
			l.Close()
		}
	})
}

// The login of the servers may not be that of the sentinels.
func TestASentinelHasALoginOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *rueidis.ClientOption) {
			o.Sentinel.MasterSet = "main"
			o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				return rueidis.AuthCredentials{}, errors.New("the file is not there")
			}
		}, "s:1")
		w.set(func() { w.master = []any{"m", "1"} })
		l := NewLine(w.Finder)
		defer l.Close()
		_, err := l.Node(t.Context())
		require.ErrorContains(t, err, "connect to m:1: the file is not there")
	})
}

// One connection serves all that wait for it, and each waits with its own context.
func TestAConnectionIsMadeOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1")
		dial := make(chan struct{})
		w.server.Refuses = func(string) error {
			<-dial
			return nil
		}
		l := NewLine(w.Finder)
		defer l.Close()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := l.Node(t.Context())
				assert.NoError(t, err)
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Node(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(dial)
		all.Wait()
		assert.Len(t, w.server.Logins(), 1)
	})
}

func TestALineThatIsClosedConnectsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1")
		dial := make(chan struct{})
		w.server.Refuses = func(string) error {
			<-dial
			return nil
		}
		l := NewLine(w.Finder)
		made := make(chan error)
		go func() {
			_, err := l.Node(t.Context())
			made <- err
		}()
		synctest.Wait()
		l.Close()
		close(dial) // a connection that is made after that is ended
		require.ErrorIs(t, <-made, ErrClosed)
		_, err := l.Node(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		l.Close()
	})
}

// What waits for an answer must not wait for a server that is given up.
func TestAConnectionThatIsDroppedEndsWhatWaitsOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1")
		w.server.Answer = func(*fakeredis.Conn, []string) any { return fakeredis.Silent{} }
		l := NewLine(w.Finder)
		defer l.Close()
		n, err := l.Node(t.Context())
		require.NoError(t, err)
		s, err := n.Subscribe(t.Context(), func(string, string) {})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- n.Do(context.Background(), n.B().Echo().Message("x").Build()).Error() }()
		synctest.Wait()
		began := time.Now()
		l.Drop(n, "")
		require.Error(t, <-ended)
		require.Error(t, <-s.Broken)
		assert.Zero(t, time.Since(began))
		s.End()
	})
}

func TestNoticesArriveUntilTheConnectionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1")
		l := NewLine(w.Finder)
		defer l.Close()
		n, err := l.Node(t.Context())
		require.NoError(t, err)
		var all []string
		s, err := n.Subscribe(t.Context(), func(channel, payload string) { all = append(all, channel+" "+payload) })
		require.NoError(t, err)
		require.NoError(t, s.Do(t.Context(), s.B().Subscribe().Channel("x", "y").Build()).Error())
		assert.Equal(t, 1, w.server.Publish("x", "1"))
		assert.Equal(t, 0, w.server.Publish("z", "2"))
		synctest.Wait()
		require.NoError(t, s.Do(t.Context(), s.B().Unsubscribe().Channel("x").Build()).Error())
		assert.Equal(t, 0, w.server.Publish("x", "3"))
		assert.Equal(t, 1, w.server.Publish("y", "4"))
		synctest.Wait()
		assert.Equal(t, []string{"x 1", "y 4"}, all)
		select {
		case err := <-s.Broken:
			assert.NoError(t, err, "it is whole")
		default:
		}
		w.server.Cut()
		require.Error(t, <-s.Broken)
		s.End()
	})
}

func TestASubscriberIsMadeWithinItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plain, "a:1")
		l := NewLine(w.Finder)
		defer l.Close()
		n, err := l.Node(t.Context())
		require.NoError(t, err)
		dial := make(chan struct{})
		w.server.Refuses = func(string) error {
			<-dial
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Subscribe(ctx, func(string, string) {})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(dial) // the connection ends as soon as it is made
		synctest.Wait()
	})
}
