package zookeeper

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// doubler has the server carry out a join a second time, with an entry of another name: as
// an attempt of the session that arrives after the call has returned that it failed.
type doubler struct {
	net.Conn
	in *bufio.Reader
	d  *doubling

	mu    sync.Mutex
	extra map[int32]bool // requests of ours, whose replies are not the client's
	ready []byte
}

type doubling struct {
	mu    sync.Mutex
	armed bool
	names []string // of the entries that no caller knows
}

func (d *doubling) arm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = true
}

func (d *doubling) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	socket, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &doubler{Conn: socket, in: bufio.NewReader(socket), d: d, extra: map[int32]bool{}}, nil
}

// anotherXid is a number that no request of the client has.
const anotherXid = 1 << 30

func (c *doubler) Write(packet []byte) (int, error) {
	f := append(zkframe.Frame(nil), packet...)
	c.d.mu.Lock()
	double := c.d.armed && joins(f)
	if double {
		c.d.armed = false
		// The path comes first, and its last part begins with the random part.
		name := f.FirstPath()[strings.LastIndexByte(f.FirstPath(), '/')+1:]
		other := "0123456789abcdef" + name[16:]
		c.d.names = append(c.d.names, other)
		g := zkframe.Frame(strings.ReplaceAll(string(f), name[:16], other[:16]))
		g[4], g[5], g[6], g[7] = anotherXid>>24, 0, 0, 1
		c.mu.Lock()
		c.extra[g.Xid()] = true
		c.mu.Unlock()
		if _, err := c.Conn.Write(g); err != nil {
			c.d.mu.Unlock()
			return 0, err
		}
	}
	c.d.mu.Unlock()
	return c.Conn.Write(packet)
}

func (c *doubler) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		f, err := zkframe.Read(c.in)
		if err != nil {
			return 0, err
		}
		c.mu.Lock()
		ours := c.extra[f.Xid()]
		c.mu.Unlock()
		if !ours {
			c.ready = f
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// TestAnUnknownEntryOfTheSessionDoesNotBlock: an entry of the same session is ahead, and
// no caller knows it.
func TestAnUnknownEntryOfTheSessionDoesNotBlock(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	d := &doubling{}
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = d.dial
	p.open(t, e.Endpoints()...)
	recipetest.Unlock(t, p.Lock(t, "x"))
	d.arm()

	h := p.Lock(t, "x")

	require.Len(t, d.names, 1, "an entry was put ahead")
	recipetest.Unlock(t, h)
	awaitEntries(t, conn, root+"/x", 0)
	p.Kept(t)
}

// TestATryIgnoresAnUnknownEntryOfItsSession: the entry ahead of a try belongs to the same
// session, and no caller knows it.
func TestATryIgnoresAnUnknownEntryOfItsSession(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	d := &doubling{}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: d.dial}, e.Endpoints()...)
	require.NoError(t, o.quit(t, o.join(t, "x")))
	d.arm()
	j := o.join(t, "x")
	require.NoError(t, o.quit(t, j))
	require.Len(t, children(t, conn, root+"/x"), 1, "the entry that no caller knows")

	try := o.joinWith(t, driver.JoinRequest{Queue: "x", IfEmpty: true})

	assert.Equal(t, o.ID(), ownerOf(t, conn, try.Entry.Key))
	require.NoError(t, o.quit(t, try))
}

// TestEvictedEntriesLeaveNothingInTheClient: a session that lives for months may
// lose many entries to operators.
func TestEvictedEntriesLeaveNothingInTheClient(t *testing.T) {
	const many = 400
	rounds := 3
	if tier.All() {
		rounds = 6
	}
	e := zktest.New(t, nil)
	conn := e.Client(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: "/locks"}, e.Endpoints()...)
	detail := []byte(strings.Repeat("x", 200))
	one := func(queue string) {
		ctx, cancel := context.WithTimeout(t.Context(), recipetest.Patience) // not recipetest.Bounded: the test itself must keep nothing
		defer cancel()
		await := func(c <-chan struct{}) {
			select {
			case <-c:
			case <-ctx.Done():
				require.Fail(t, "no event")
			}
		}
		js, err := o.Join(ctx, driver.JoinRequest{Queue: queue, Data: []byte("v"), Valued: true, Detail: detail})
		require.NoError(t, err)
		ref := js[0].Entry.Ref
		gone, armed := make(chan struct{}), make(chan struct{}, 4)
		stop := o.Watch(ref.Target(), func(ev driver.Event) {
			switch ev.Kind {
			case driver.Armed:
				armed <- struct{}{}
			case driver.Gone:
				close(gone)
			case driver.Changed, driver.Lost:
			}
		})
		defer stop()
		await(armed)
		err = conn.Delete(ref.Key, -1)
		if err != nil {
			require.ErrorIs(t, err, zk.ErrNoNode)
		}
		await(gone)
		_, err = o.Leave(ctx, driver.LeaveRequest{Ref: ref}) // as the owner of a lost entry does
		require.NoError(t, err)
	}
	evict := func() {
		for i := range many {
			one(fmt.Sprint("x", i%8))
		}
	}
	evict()
	atServer := func() int { return watches(t, e) }
	before := both.Settled(t, atServer)
	for range rounds {
		evict()
	}

	assert.Less(t, (both.Settled(t, atServer)-before)/int64(rounds*many), int64(150), "bytes kept for each entry that was evicted")
}
