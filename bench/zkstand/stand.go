// Package zkstand has fairlock compete with go-zookeeper's zk.Lock.
package zkstand

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/zktest"
)

// Service is ZooKeeper.
func Service() stand.Service {
	return stand.Service{
		Name: "ZooKeeper", Peer: "zk.Lock",
		Contestants: stand.Contestants("zk.Lock", "zk.Lock, one Conn"),
		Start:       start,
	}
}

// tick is the servers' tickTime, their own default: the heartbeats of ours on an
// ensemble follow it.
const tick = 2 * time.Second

// ensemble is an ensemble and the clients that run against it.
type ensemble struct {
	*zktest.Ensemble
	version string
	control *zk.Conn // looks at lines from the side, past the proxies; not counted
}

var _ stand.Stand = (*ensemble)(nil)

func start(ctx context.Context, s stand.Setting) (stand.Stand, error) {
	e, err := zktest.Start(ctx, &zktest.Options{
		Members: s.Members(), Fsync: s.Fsync(), Proxied: s.RTT() > 0, Tick: tick, MaxSession: ttl,
	})
	if err != nil {
		return nil, err
	}
	if rtt := s.RTT(); rtt > 0 {
		for i := range e.Len() {
			e.Member(i).ClientProxy().Delay(fault.Both, rtt/2)
		}
	}
	control, err := e.NewClient(nil)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	all := &ensemble{Ensemble: e, control: control}
	if err := errors.Join(all.identify(ctx), all.warm(ctx)); err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}

var versionLine = regexp.MustCompile(`(?m)^Zookeeper version: ([0-9.]+)`)

// identify learns the servers' version.
func (e *ensemble) identify(ctx context.Context) error {
	answer, err := e.Member(0).Command(ctx, "srvr")
	if err != nil {
		return err
	}
	m := versionLine.FindStringSubmatch(answer)
	if m == nil {
		return fmt.Errorf("the server tells no version: %q", answer)
	}
	e.version = m[1]
	return nil
}

// warm makes the servers do for a moment what all contestants have them do: a
// Java program is slow until it has compiled what it is busy with, and that
// would be held against who comes first.
func (e *ensemble) warm(ctx context.Context) error {
	const dir, d = "/warm", time.Second / 2
	if _, err := e.control.Create(dir, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; {
		r, err := e.control.Multi(entry(dir, zk.FlagEphemeral), &zk.SetDataRequest{Path: dir, Version: -1})
		if err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		_, _, events, err := e.control.GetW(r[0].String)
		if err == nil {
			_, _, err = e.control.Children(dir)
		}
		if err == nil {
			err = e.control.Delete(r[0].String, -1)
		}
		if err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		<-events
	}
	return ctx.Err()
}

// Version implements stand.Stand.
func (e *ensemble) Version() string { return e.version }

// Close implements stand.Stand.
func (e *ensemble) Close() error {
	e.control.Close()
	return e.Ensemble.Close()
}

// Length implements stand.Stand. A line is a folder.
func (e *ensemble) Length(_ context.Context, line string) (int, error) {
	there, stat, err := e.control.Exists(line)
	if err != nil {
		return 0, fmt.Errorf("count the line: %w", err)
	}
	if !there {
		return 0, nil
	}
	return int(stat.NumChildren), nil
}

// batch is how many nodes are made or deleted in one transaction.
const batch = 100

// Fill implements stand.Stand.
func (e *ensemble) Fill(ctx context.Context, line string, n int) error {
	for n > 0 && ctx.Err() == nil {
		var creates []any
		for range min(n, batch) {
			creates = append(creates, entry(line, 0))
		}
		if _, err := e.control.Multi(creates...); err != nil {
			return fmt.Errorf("create %d nodes: %w", len(creates), err)
		}
		n -= len(creates)
	}
	return ctx.Err()
}

// entry is the request for a node as zk.Lock would make it.
func entry(dir string, flags int32) *zk.CreateRequest {
	var guid [16]byte
	_, _ = rand.Read(guid[:]) // never fails
	return &zk.CreateRequest{
		Path: fmt.Sprintf("%s/_c_%x-lock-", dir, guid), Acl: zk.WorldACL(zk.PermAll), Flags: flags | zk.FlagSequence,
	}
}

// Clear implements stand.Stand.
func (e *ensemble) Clear(ctx context.Context, line string) error {
	err := e.clear(ctx, line)
	// The servers remove folders of ours by themselves, when they look and
	// nobody is there.
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("clear %q: %w", line, err)
	}
	return nil
}

func (e *ensemble) clear(ctx context.Context, line string) error {
	if _, err := e.control.Sync(line); err != nil { // our server may lag behind theirs
		return err
	}
	names, _, err := e.control.Children(line)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, batch) {
		var deletes []any
		for _, name := range some {
			deletes = append(deletes, &zk.DeleteRequest{Path: line + "/" + name, Version: -1})
		}
		if _, err := e.control.Multi(deletes...); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return e.control.Delete(line, -1)
}
