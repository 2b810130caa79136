package zkstand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/bench/stand"
)

// bareRoot is the folder of the queues of bare requests.
const bareRoot = "/bare"

// bare sends only the requests that a fair lock needs: a transaction that creates a node and
// counts the queue; if a node is ahead, a list of the folder and a watch on the nearest node
// ahead; and a delete. A contender deletes its node only after it has acquired, so the delete
// is the grant of the next.
type bare struct{ conn *zk.Conn }

var _ stand.Contender = bare{}

// Lock implements stand.Contender.
func (b bare) Lock(ctx context.Context, name string) (func() error, error) {
	folder := bareRoot + "/" + name
	own, ahead, err := b.join(folder)
	if err == nil && ahead > 0 {
		err = b.wait(ctx, folder, own)
	}
	if err != nil {
		return nil, fmt.Errorf("bare: %w", err)
	}
	return func() error { return b.conn.Delete(own, -1) }, nil
}

// join creates a node, and the folder if there is none. It returns the number of nodes ahead.
func (b bare) join(folder string) (own string, ahead int32, err error) {
	for {
		r, err := b.conn.Multi(entry(folder, zk.FlagEphemeral), &zk.SetDataRequest{Path: folder, Version: -1})
		switch {
		case err == nil:
			return r[0].String, r[1].Stat.NumChildren - 1, nil
		case !errors.Is(err, zk.ErrNoNode):
			return "", 0, fmt.Errorf("join: %w", err)
		}
		for _, path := range []string{bareRoot, folder} {
			if _, err := b.conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return "", 0, fmt.Errorf("make %q: %w", path, err)
			}
		}
	}
}

// wait waits until the node ahead is deleted.
func (b bare) wait(ctx context.Context, folder, own string) error {
	names, _, err := b.conn.Children(folder)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	sequence := func(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
	slices.SortFunc(names, func(x, y string) int { return strings.Compare(sequence(x), sequence(y)) })
	i := slices.Index(names, strings.TrimPrefix(own, folder+"/"))
	if i < 0 {
		return fmt.Errorf("%q was deleted", own)
	}
	if i == 0 {
		return nil
	}
	_, _, events, err := b.conn.GetW(folder + "/" + names[i-1])
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	select {
	case e := <-events:
		if e.Type != zk.EventNodeDeleted {
			return fmt.Errorf("watch: %w", errors.Join(e.Err, zk.ErrUnknown))
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
