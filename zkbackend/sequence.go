package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// sequenceGuard is the first of a folder's last numbers. ZooKeeper counts a folder's children in
// 32 bits. At the end, children that are made one by one all get 2147483647, and those that are
// made together get negative numbers, so the order of numbers means nothing any more
// (PrepRequestProcessor and DataTree.createNode of 3.8). A folder that is made anew counts from
// 0. So a join that gets one of the last million numbers deletes its entry, waits until the queue
// is empty, and removes the folder, unless another program has written data into it meanwhile.
const sequenceGuard = maxSequence - 1<<20

// overflow deletes an entry with one of the last numbers, and waits. It returns errAgain when the
// folder counts from 0 again, and ErrSequence if other programs keep the folder from emptying.
func (j *join) overflow(ctx context.Context, p *joinPart, n entryName) error {
	if err := j.undone(ctx, nil); err != nil {
		return err
	}
	j.s.cfg.Logger.Warn("zookeeper: the sequence numbers of a queue are nearly used up; waiting until it is empty to restart them",
		"name", p.req.Queue, "path", p.folder, "sequence", n.seq)
	for d := 10 * time.Millisecond; ; d = min(2*d, 320*time.Millisecond) {
		var folder conn.Answer
		var b batch
		b.addFolder(p.folder, func(a conn.Answer) { folder = a })
		if err := b.run(ctx, j.s, false); err != nil {
			return err
		}
		if nextSequence(folder.Stat) < sequenceGuard { // another client has removed it
			return errAgain
		}
		if len(folder.Children) == 0 {
			if err := j.restart(ctx, p, folder.Stat); err != nil {
				return err
			}
		}
		if child := obstacle(folder.Children); child != "" {
			err := fmt.Errorf("%w: %w: %q is in %s, and not ours", driver.ErrRefused, ErrSequence, child, p.folder)
			j.s.cfg.Logger.Error("zookeeper: the sequence numbers of a queue cannot restart", "name", p.req.Queue, "err", err)
			return err
		}
		if !driver.Sleep(ctx, j.s.b.Info().Clock, d/2+rand.N(d)) {
			return fmt.Errorf("waiting for %s to empty: %w", p.folder, driver.ContextError(ctx))
		}
		if p.req.IfEmpty { // the next attempt checks that, instead of waiting
			return errAgain
		}
	}
}

// restart removes a folder that was empty, and had no data, when it was read. It returns errAgain if
// the folder is gone, and nil if it was written since, or is not empty any more.
func (j *join) restart(ctx context.Context, p *joinPart, folder zk.Stat) error {
	if err := foreignData(p.folder, folder); err != nil {
		return err
	}
	_, err := j.s.conn.Repeat(ctx, conn.Multi(removeAt(p.folder, folder.Version)))
	switch {
	case err == nil, isMissing(err):
		return errAgain
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNotEmpty):
		return nil
	}
	parent, _ := split(p.folder)
	return translate(err, "DELETE", parent)
}

// nextSequence returns the number of a folder's next entry: how many children it has ever had.
// Cversion is that plus how many were deleted, in 32 bits.
func nextSequence(folder zk.Stat) int64 {
	return int64(uint32(folder.Cversion+folder.NumChildren) / 2) //nolint:gosec // it wraps
}

// obstacle returns a child that keeps a folder from being removed, or "". Entries of this library
// with the last numbers are deleted by their sessions. After a foreign one others would come. A
// child that is no entry counts only when no entry is left to wait for.
func obstacle(children []string) string {
	names := parseNames(children)
	for _, n := range names {
		if n.guid == "" && (n.seq < 0 || n.seq >= sequenceGuard) {
			return n.text
		}
	}
	if len(names) == 0 && len(children) > 0 {
		return children[0]
	}
	return ""
}
