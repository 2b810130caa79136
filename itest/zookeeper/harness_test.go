package zookeeper

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// zkTick is the tick of the ensembles that the suites run on.
const zkTick = 50 * time.Millisecond

// The operator of the suites' ensembles. No other login may write another owner's entry.
const operatorName, operatorPassword = "super", "of the suites"

// zkOperator is the property by which the servers know the operator.
func zkOperator() map[string]string {
	id := zk.DigestACL(zk.PermAll, operatorName, operatorPassword)[0].ID
	return map[string]string{"zookeeper.DigestAuthenticationProvider.superDigest": id}
}

// zkHarness runs the suites on an ensemble. Every case has a root of its own, and every
// client has its own proxies, one for each member.
func zkHarness(e *zktest.Ensemble, layout zkbackend.Layout) drivertest.Harness {
	var cases atomic.Int64
	try := 2 // the queue, and the data of its first entry
	if e.Len() > 1 {
		try++ // the queue once more, behind a Sync: a follower may be late
	}
	issued := sync.OnceValues(func() (*tls.Config, error) { return e.CA().Client("suite") })
	return drivertest.Harness{
		TTL:      2 * time.Second,
		Calm:     recipetest.EventTTL,
		First:    true,
		Spurious: true,
		Try:      try,
		Parallel: true,
		// Two cores, the race detector and dozens of cases at once.
		Prompt: 500 * time.Millisecond,
		// A server with Netty goes on with what it has read of a connection that
		// the client has replaced, and no transaction can be made to depend on it.
		Undone: true,
		Service: func(t *testing.T) drivertest.Service {
			s := &zkService{
				ensemble: e, layout: layout, admin: patient(t, e), root: fmt.Sprint("/case", cases.Add(1)), passwords: map[int64]string{},
			}
			if ca := e.CA(); ca != nil {
				var err error
				s.tls, err = issued()
				require.NoError(t, err)
			}
			require.NoError(t, s.admin.AddAuth("digest", []byte(operatorName+":"+operatorPassword)))
			// The queue of most cases was used before: the first join of a queue makes
			// its folder too.
			for _, queue := range []string{"orders/settle", "orders/ship", "gpu", "kept"} {
				s.folder(t, queue)
				for _, part := range []string{"details", "holders", "records"} {
					folder(t, s.admin, s.side(queue)+"/"+part)
				}
			}
			return s
		},
	}
}

// patient returns a client that bypasses the proxies. No server fails in the suites, so one that is
// silent wants nothing but a core, and is waited for.
func patient(t testing.TB, e *zktest.Ensemble) *zk.Conn {
	t.Helper()
	conn, err := e.NewClient(&zktest.ClientOptions{Session: recipetest.EventTTL})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	recipetest.Until(t, "a connection", func() bool {
		_, _, err := conn.Exists("/")
		return err == nil
	})
	return conn
}

// zkService is the part of an ensemble that one case sees.
type zkService struct {
	ensemble *zktest.Ensemble
	layout   zkbackend.Layout
	tls      *tls.Config // nil if the servers talk in the clear
	admin    *zk.Conn
	root     string

	gate sync.RWMutex // held while a connection of the harness takes a session over

	mu        sync.Mutex
	passwords map[int64]string // of all sessions that were opened, by their number
	foreign   *zk.Conn         // has the foreign entries
}

// zkOdd are characters that a path cannot contain, or that have a meaning there.
var zkOdd = regexp.MustCompile(`[%\x00-\x1f\x7f-\x9f\x{e000}-\x{f8ff}\x{fff0}-\x{10ffff}]`)

// dir returns the folder of a queue's entries.
func (s *zkService) dir(queue string) string {
	if _, asks := driver.AskedQueue(queue); asks {
		return s.side(queue) + "/queue"
	}
	var dir strings.Builder
	dir.WriteString(s.root)
	for seg := range strings.SplitSeq(queue, "/") {
		switch seg {
		case "":
			seg = "%"
		case ".", "..":
			seg = strings.Repeat("%2E", len(seg))
		default:
			seg = zkOdd.ReplaceAllStringFunc(seg, func(c string) string {
				return "%" + strings.ReplaceAll(fmt.Sprintf("% X", c), " ", "%")
			})
		}
		dir.WriteString("/" + seg)
	}
	return dir.String()
}

// side returns the folder of a queue's records and other nodes.
func (s *zkService) side(queue string) string {
	if name, asks := driver.AskedQueue(queue); asks {
		return s.side(name) + "/asks"
	}
	return s.root + "/%v2/" + strings.ReplaceAll(strings.TrimPrefix(s.dir(queue), s.root+"/"), "/", "%2F")
}

// folder makes a queue's folder, and returns it.
func (s *zkService) folder(t *testing.T, queue string) string {
	return folder(t, s.admin, s.dir(queue))
}

// folder makes a folder, and those that it is in, as the backend does.
func folder(t testing.TB, conn *zk.Conn, path string) string {
	t.Helper()
	for i := range path {
		if i > 0 && path[i] == '/' {
			container(t, conn, path[:i])
		}
	}
	container(t, conn, path)
	return path
}

func container(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	_, err := conn.CreateContainer(path, []byte{}, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrNodeExists) {
		require.NoError(t, err, path)
	}
}

func (s *zkService) Delete(t *testing.T, ref driver.Ref) {
	require.NoError(t, s.admin.Delete(ref.Key, -1), "entry %v", ref)
}

func (s *zkService) PutForeign(t *testing.T, queue string, leased bool) driver.Ref {
	dir := s.folder(t, queue)
	conn, flags := s.admin, int32(zk.FlagSequence)
	if leased {
		conn, flags = s.other(t), zk.FlagSequence|zk.FlagEphemeral
	}
	var guid [16]byte
	_, _ = rand.Read(guid[:]) // never fails
	key, err := conn.Create(dir+"/_c_"+hex.EncodeToString(guid[:])+"-lock-", []byte("not ours"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	place, err := strconv.ParseInt(key[len(key)-10:], 10, 64)
	require.NoError(t, err)
	return driver.Ref{Queue: queue, Key: key, Place: place + 1}
}

// other returns another client, whose session outlives the case.
func (s *zkService) other(t *testing.T) *zk.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign == nil {
		s.foreign = patient(t, s.ensemble)
	}
	return s.foreign
}

func (s *zkService) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	if value == nil {
		var err error
		value, _, err = s.admin.Get(ref.Key)
		require.NoError(t, err)
	}
	_, err := s.admin.Set(ref.Key, value, -1)
	require.NoError(t, err)
}

// zkEntry matches the end of the name of an entry of any program.
var zkEntry = regexp.MustCompile(`(lock-|latch-|__(READ|WRIT|lock|rlock)__)-?[0-9]{10}$`)

func (s *zkService) Count(t *testing.T, queue string) int {
	dir := s.dir(queue)
	_, err := s.admin.Sync("/")
	require.NoError(t, err)
	children, _, err := s.admin.Children(dir)
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNoNode, dir)
	}
	n := 0
	for _, c := range children {
		if zkEntry.MatchString(c) {
			n++
		}
	}
	return n
}

// learn records the password of a session, from the answer to its handshake:
// version, timeout, number, password.
func (s *zkService) learn(handshake zkframe.Frame) {
	session, password := handshake.Identity()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passwords[session] = password
}

// Expire ends a session by its password: there is no command for it. That breaks the connection of
// its owner, who must not reconnect before the end: where another connection closes a session, the
// server keeps the newer one, and answers nothing there.
func (s *zkService) Expire(t *testing.T, session string) {
	id, err := strconv.ParseUint(strings.TrimPrefix(session, "0x"), 16, 64)
	require.NoError(t, err)
	s.mu.Lock()
	password := s.passwords[int64(id)]
	s.mu.Unlock()
	require.NotEmpty(t, password, "session %s", session)
	s.gate.Lock()
	defer s.gate.Unlock()
	for try := 0; ; try++ {
		alive, err := s.end(t.Context(), int64(id), password)
		if !alive && err == nil {
			require.Positive(t, try, "session %s had ended before", session)
			// The leader refuses a session from when its end is proposed, and a Sync
			// there waits for no other member. A write after that is done after the
			// end, also if it changes nothing.
			require.ErrorIs(t, s.admin.Delete(s.root+"/none", -1), zk.ErrNoNode)
			return
		}
		require.Less(t, try, 100, "session %s does not end: %v", session, err)
	}
}

// end tries to end a session, and reports whether there was one.
func (s *zkService) end(ctx context.Context, id int64, password string) (alive bool, err error) {
	socket, err := s.dial(ctx, "tcp", s.ensemble.Member(0).Direct())
	if err != nil {
		return true, err
	}
	defer socket.Close()
	if err := socket.SetDeadline(time.Now().Add(recipetest.Patience)); err != nil {
		return true, err
	}
	if _, err := socket.Write(zkframe.End(id, password, 2*time.Second)); err != nil {
		return true, err
	}
	handshake, err := zkframe.Read(socket)
	if err != nil {
		return true, err
	}
	if session, _ := handshake.Identity(); session == 0 {
		return false, nil
	}
	_, err = io.Copy(io.Discard, socket) // the server closes it when it has answered
	return true, err
}

func (s *zkService) Client(t *testing.T) drivertest.Client {
	c := &zkClient{svc: s}
	var servers []string
	for i := range s.ensemble.Len() {
		p, err := testnet.New(s.ensemble.Member(i).Direct(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		c.Proxies = append(c.Proxies, p)
		servers = append(servers, p.Addr())
	}
	c.servers = servers
	var err error
	c.backend, err = zkbackend.NewBackend(servers, &zkbackend.Options{
		Root: s.root, TickTime: zkTick, Layout: s.layout,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			socket, err := s.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.conns.Add(1)
			return newZKConn(c, socket, address), nil
		},
	})
	require.NoError(t, err)
	return c
}

// zkClient is a client whose network can be broken: as a whole, by its proxies, and
// request by request, where it dials.
type zkClient struct {
	both.Replies
	fault.Plan

	svc     *zkService
	backend driver.Backend
	servers []string // its proxies, in the order of the members
	sent    atomic.Int64
	conns   atomic.Int64 // connections that were made

	mu   sync.Mutex
	kept []keptRequest

	hook      sync.Mutex // held while onRequest runs
	onRequest func()
}

func (c *zkClient) Backend() driver.Backend { return c.backend }

func (c *zkClient) OnRequest(f func()) {
	c.hook.Lock()
	defer c.hook.Unlock()
	c.onRequest = f
}

// Late implements drivertest.Client: a client that misses an answer makes another connection.
func (c *zkClient) Late() int { return int(c.conns.Load()) }

func (c *zkClient) Requests() int { return int(c.sent.Load()) }

// sends counts a request and calls the function of OnRequest.
func (c *zkClient) sends() {
	c.hook.Lock()
	defer c.hook.Unlock()
	c.sent.Add(1)
	if c.onRequest != nil {
		c.onRequest()
	}
}

// cutReplies is the fault of CutRepliesTo.
const cutReplies fault.Kind = "CutReplies"

// hits returns the fault that hits a request, "" if none does.
func (c *zkClient) hits(f zkframe.Frame, kinds []fault.Op) (hit fault.Kind, since int) {
	waits := c.Waits(fault.Join) || c.CutWaits(fault.Join)
	if waits && slices.Contains(kinds, fault.Join) && !c.svc.has(folderOf(f)) {
		return "", 0
	}
	since, cut := c.TakeCut(kinds...)
	if cut {
		return cutReplies, since
	}
	return c.Take(kinds...), 0
}

// has reports whether a folder is there. The servers refuse to make an entry where it is
// not, so a fault of that request would hit no join.
func (s *zkService) has(folder string) bool {
	_, err := s.admin.Sync("/")
	if err != nil {
		return true
	}
	there, _, err := s.admin.Exists(folder)
	return there || err != nil
}
