// Package zkstand compares fairlock with go-zookeeper's zk.Lock.
package zkstand

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/bench/stand"
)

// Service returns ZooKeeper.
func Service() stand.Service {
	return stand.Service{
		Name: "ZooKeeper", Peer: "zk.Lock",
		Contestants: stand.Contestants("zk.Lock", "zk.Lock, one Conn"),
		Attach:      attach,
	}
}

const (
	// Tick is the servers' tickTime, their default. Fairlock's heartbeats on an ensemble
	// depend on it.
	Tick = 2 * time.Second
	// TTL is the session timeout of all contestants.
	TTL = time.Minute
)

// ensemble is an ensemble, with a connection for the stand itself.
type ensemble struct {
	at      stand.Addresses
	control *zk.Conn // does not use the proxies; not counted
}

var _ stand.Stand = (*ensemble)(nil)

func attach(_ context.Context, at stand.Addresses) (stand.Stand, error) {
	control, err := controlConn(at)
	if err != nil {
		return nil, err
	}
	return &ensemble{at: at, control: control}, nil
}

// connect returns a connection that logs nothing. It connects in the background. A nil
// dial makes plain connections.
func connect(servers []string, session time.Duration, dial zk.Dialer, onEvent zk.EventCallback) (*zk.Conn, error) {
	if len(servers) == 1 {
		// The library sleeps a second before it begins its list again. With a list of
		// one server it would do so at every reconnection.
		servers = []string{servers[0], servers[0]}
	}
	if dial == nil {
		dial = net.DialTimeout
	}
	conn, _, err := zk.Connect(servers, session,
		zk.WithDialer(dial), zk.WithEventCallback(onEvent), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("client of %q: %w", servers, err)
	}
	return conn, nil
}

// controlConn returns a connection for the stand itself.
func controlConn(at stand.Addresses) (*zk.Conn, error) {
	return connect(at.Direct, 10*time.Second, nil, func(zk.Event) {})
}

type silent struct{}

// Printf drops what the library logs.
func (silent) Printf(string, ...any) {}

// Warm sends the servers for a moment the requests that all contestants send. A Java program
// is slow until its busy code is compiled, which would be counted against the contestant that
// comes first.
func Warm(ctx context.Context, at stand.Addresses) error {
	control, err := controlConn(at)
	if err != nil {
		return err
	}
	defer control.Close()
	if err := warm(ctx, control); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return ctx.Err()
}

func warm(ctx context.Context, control *zk.Conn) error {
	const dir, d = "/warm", time.Second / 2
	if _, err := control.Create(dir, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; {
		r, err := control.Multi(entry(dir, zk.FlagEphemeral), &zk.SetDataRequest{Path: dir, Version: -1})
		if err != nil {
			return err
		}
		_, _, events, err := control.GetW(r[0].String)
		if err == nil {
			_, _, err = control.Children(dir)
		}
		if err == nil {
			err = control.Delete(r[0].String, -1)
		}
		if err != nil {
			return err
		}
		<-events
	}
	return nil
}

// Close implements stand.Stand.
func (e *ensemble) Close() error {
	e.control.Close()
	return nil
}

// Length implements stand.Stand. A queue is a folder.
func (e *ensemble) Length(_ context.Context, queue string) (int, error) {
	there, stat, err := e.control.Exists(queue)
	if err != nil {
		return 0, fmt.Errorf("count the queue: %w", err)
	}
	if !there {
		return 0, nil
	}
	return int(stat.NumChildren), nil
}

// batch is the number of nodes that are created or deleted in one transaction.
const batch = 100

// Fill implements stand.Stand.
func (e *ensemble) Fill(ctx context.Context, queue string, n int) error {
	for n > 0 && ctx.Err() == nil {
		var creates []any
		for range min(n, batch) {
			creates = append(creates, entry(queue, 0))
		}
		if _, err := e.control.Multi(creates...); err != nil {
			return fmt.Errorf("create %d nodes: %w", len(creates), err)
		}
		n -= len(creates)
	}
	return ctx.Err()
}

// entry returns the request that creates a node as zk.Lock would.
func entry(dir string, flags int32) *zk.CreateRequest {
	var guid [16]byte
	_, _ = rand.Read(guid[:]) // never fails
	return &zk.CreateRequest{
		Path: fmt.Sprintf("%s/_c_%x-lock-", dir, guid), Acl: zk.WorldACL(zk.PermAll), Flags: flags | zk.FlagSequence,
	}
}

// Clear implements stand.Stand.
func (e *ensemble) Clear(ctx context.Context, queue string) error {
	err := e.clear(ctx, queue)
	// The servers remove the empty folders of fairlock by themselves, so the folder may
	// not exist any more.
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("clear %q: %w", queue, err)
	}
	return nil
}

func (e *ensemble) clear(ctx context.Context, queue string) error {
	if _, err := e.control.Sync(queue); err != nil { // our server may be behind that of the contenders
		return err
	}
	names, _, err := e.control.Children(queue)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, batch) {
		var deletes []any
		for _, name := range some {
			deletes = append(deletes, &zk.DeleteRequest{Path: queue + "/" + name, Version: -1})
		}
		if _, err := e.control.Multi(deletes...); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return e.control.Delete(queue, -1)
}
