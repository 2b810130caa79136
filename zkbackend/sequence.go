package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// sequenceGuard is where the last numbers of a folder begin. A ZooKeeper folder
// counts its children in 32 bits; at the end the count sticks at 2147483647 for
// all who come one by one, or turns negative for those who come together, and
// the order of numbers means nothing any more (PrepRequestProcessor and
// DataTree.createNode of 3.8). At a thousand acquisitions a second that is after
// 25 days. A folder that is made anew counts from 0; so whoever gets one of the
// last million numbers gives it back, waits until the line is empty, and removes
// the folder.
const sequenceGuard = maxSeq - 1<<20

// overflow takes in an entry with one of the last numbers. It returns when the
// join has been made in the folder's next life.
func (j *join) overflow(ctx context.Context, p part, n node) ([]driver.Joined, error) {
	if err := j.removeAll(ctx); err != nil {
		return nil, j.giveUp(err)
	}
	j.closed()
	j.s.cfg.Logger.Warn("zookeeper: the sequence numbers of a queue are nearly used up; waiting until it is empty to restart them",
		"name", p.req.Line, "path", p.dir, "sequence", n.seq)
	if err := j.renew(ctx, p); err != nil {
		return nil, err
	}
	return j.run(ctx)
}

// renew waits beside the line until it is empty and removes its folder, or until
// somebody else has: who went on waiting then would be overtaken by all who join
// the new line. It gives up where the end will not come by itself.
func (j *join) renew(ctx context.Context, p part) error {
	for n := 0; ; n++ {
		c, err := j.s.children(ctx, p.dir)
		if err != nil {
			return translate(err, "READ", p.dir)
		}
		if nextSeq(c.stat) < sequenceGuard {
			return nil
		}
		nodes := parseNodes(c.names)
		if why := stuck(c.names, nodes); why != "" {
			err := sequenceError(p.dir, why)
			j.s.cfg.Logger.Error("zookeeper: a queue cannot restart: its sequence numbers are used up", "name", p.req.Line, "err", err)
			return err
		}
		if len(nodes) == 0 {
			again, err := j.removeFolder(ctx, p, c.stat.Version)
			if !again {
				return err
			}
			continue
		}
		if p.req.IfEmpty {
			return j.takenBy(ctx, nodes[0].entry(p.req.Line, p.dir), len(nodes))
		}
		d := 10 * time.Millisecond << min(n, 5)
		driver.Sleep(ctx, j.s.b.clock, d/2+rand.N(d))
		if ctx.Err() != nil {
			return fmt.Errorf("%w: waiting for %s to empty: %w", driver.ErrUnavailable, p.dir, context.Cause(ctx))
		}
	}
}

// nextSeq is the number of a folder's next entry, 0 if there is no folder: how
// many children it has ever had. What ZooKeeper shows as Cversion is that and
// how many have gone, in 32 bits.
func nextSeq(folder zk.Stat) int64 { return int64(uint32(folder.Cversion+folder.NumChildren) / 2) }

// removeFolder removes the empty folder, unless somebody has joined since it had
// that version; again says that it was not to be.
func (j *join) removeFolder(ctx context.Context, p part, version int32) (again bool, _ error) {
	_, err := ask(ctx, j.s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(p.dir, version) })
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode):
		return false, nil
	case errors.Is(err, zk.ErrNotEmpty), errors.Is(err, zk.ErrBadVersion):
		return true, nil
	}
	parent, _ := split(p.dir)
	return false, translate(err, "DELETE", orRoot(parent))
}

// stuck says what keeps a folder from being removed when its line has emptied;
// "" if nothing does. Entries of ours with the last numbers go by themselves,
// those of others would be joined by more.
func stuck(names []string, nodes []node) string {
	for _, n := range nodes {
		if n.guid == "" && (n.seq < 0 || n.seq >= sequenceGuard) {
			return fmt.Sprintf("%q, which is not ours, has one of the last numbers", n.name)
		}
	}
	if len(nodes) == 0 && len(names) > 0 {
		return fmt.Sprintf("%q is in it, which is no entry", names[0])
	}
	return ""
}
