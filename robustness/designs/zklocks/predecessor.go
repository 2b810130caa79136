package zklocks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// Predecessor has an ephemeral node with a number for each program, which watches the node before its own and
// takes the end of that node for its turn. The recipe of ZooKeeper's documentation lists the nodes again there;
// many programs that follow it leave that step out, because it seems to find nothing new.
type Predecessor struct{ *conn }

// OpenPredecessor connects a client of Predecessor.
func OpenPredecessor(connect func(onEvent func(zk.Event)) (*zk.Conn, error)) (lock.Locker, error) {
	c, err := dial(connect)
	return &Predecessor{c}, err
}

// Lock implements lock.Locker.
func (l *Predecessor) Lock(ctx context.Context, name string) (lock.Hold, error) {
	folder := Root + "/" + name
	_, err := l.zk.Create(folder, nil, 0, zk.WorldACL(zk.PermAll))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return nil, err
	}
	over := l.lost()
	path, err := l.zk.CreateProtectedEphemeralSequential(folder+"/n-", nil, zk.WorldACL(zk.PermAll))
	if err != nil {
		return nil, err
	}
	h := &hold{l.conn, path, over}
	for {
		before, err := l.before(folder, path)
		if err != nil {
			return nil, h.giveUp(ctx, err)
		}
		if before == "" {
			return h, nil
		}
		there, _, gone, err := l.zk.ExistsW(before)
		switch {
		case err != nil:
			return nil, h.giveUp(ctx, err)
		case !there: // between the list and the watch: list again, as the library's lock does
			continue
		}
		select {
		case e := <-gone:
			if e.Err != nil { // of the connection: nothing is known of the node
				return nil, h.giveUp(ctx, e.Err)
			}
			return h, nil // the predecessor is gone, so it is our turn
		case <-ctx.Done():
			return nil, h.giveUp(ctx, ctx.Err())
		}
	}
}

// giveUp removes the node of a waiter, and returns why.
func (h *hold) giveUp(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(why, h.Unlock(ctx))
}

// before returns the path of the node before a node, "" if that is the first.
func (l *Predecessor) before(folder, path string) (string, error) {
	names, _, err := l.zk.Children(folder)
	if err != nil {
		return "", err
	}
	number := func(name string) string { return name[len(name)-10:] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	i := slices.IndexFunc(names, func(name string) bool { return number(name) >= number(path) })
	if i <= 0 {
		return "", nil
	}
	return folder + "/" + names[i-1], nil
}
