package zkbackend

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// This file has what a join requires of its folders before it sends a transaction:
//
//	every request    the folder is there, and has no data of another program: require
//	with IfEmpty     and no entry: requireEmpty
//
// Both are read, because no transaction of ZooKeeper can require either. What comes between the read
// and the transaction: for IfEmpty the transaction requires the version of the folder's data, which
// every join of this library raises. An entry of a program that does not write the folder is found
// after the join: see join.ahead. Data that comes meanwhile is lost.

// require returns an error if the folder of a queue has data: it is a node of another program then,
// and the join would delete that. It reads the folders in which this session has not joined before,
// all in one round trip, and makes those that are missing. Data that another program writes while
// the session uses a folder is not seen: to require the folder's version would make joins fail each
// other.
func (j *join) require(ctx context.Context) error {
	var b batch
	var missing []*joinPart
	for _, p := range j.parts {
		p.used, _ = j.s.used.get(p.folder)
		if p.used || p.fresh || p.req.IfEmpty { // requireEmpty reads it in every attempt
			continue
		}
		b.add(conn.Exists(p.folder), func(a conn.Answer) error {
			switch {
			case isMissing(a.Err):
				missing = append(missing, p)
				return nil
			case a.Err != nil:
				return translate(a.Err, "READ", p.folder)
			}
			return foreignData(p.folder, a.Stat)
		})
	}
	if err := b.run(ctx, j.s, false); err != nil {
		return err
	}
	for _, p := range missing {
		if err := j.makeFolder(ctx, p); err != nil {
			return err
		}
		if !p.fresh { // another client was faster: the next attempt reads what it has made
			return errAgain
		}
	}
	return nil
}

// makeFolder makes the folder of a queue.
func (j *join) makeFolder(ctx context.Context, p *joinPart) (err error) {
	j.s.used.forget(p.folder)
	p.fresh, err = j.s.folders.ensure(ctx, p.folder)
	return err
}

// foreignData returns an error if a folder has data. No program that keeps entries in a folder gives it any.
func foreignData(folder string, stat zk.Stat) error {
	if stat.DataLength == 0 {
		return nil
	}
	return fmt.Errorf("%w: the node %s has %d bytes of data of another program, which the lock would delete: "+
		"choose another name or root, or delete the data if no program needs it", driver.ErrRefused, folder, stat.DataLength)
}

// requireEmpty reads a folder that must be empty, and has the attempt require the version that it has
// then. The error is a *driver.TakenError if it is not empty.
//
// A follower may be behind. That it shows an entry which is gone by now would refuse a free queue, so a
// queue that is not empty is read once more, behind a Sync. That it does not show a new entry does no
// harm, because the transaction requires the folder's version.
func (j *join) requireEmpty(ctx context.Context, p *joinPart) error {
	var names []entryName
	read := func(fresh bool) error {
		var b batch
		var folder zk.Stat
		b.addFolder(p.folder, func(a conn.Answer) { names, folder = parseNames(a.Children), a.Stat })
		p.version = 0
		if err := b.run(ctx, j.s, fresh); err != nil {
			return err
		}
		p.version = folder.Version
		return foreignData(p.folder, folder)
	}
	err := read(false)
	if len(names) > 0 && !j.s.conn.Standalone() {
		err = read(true)
	}
	if err != nil || len(names) == 0 {
		return err
	}
	return j.taken(ctx, p, names)
}

// taken returns the error of a queue that is not empty, also if the first entry cannot be read.
// It returns errAgain if that entry was debris.
func (j *join) taken(ctx context.Context, p *joinPart, names []entryName) error {
	first := p.entries(names[:1])
	err := p.describe(ctx, first, nil)
	if err != nil && !driver.Incurable(err) {
		return err
	}
	if j.s.own.isDebris(&first[0]) && !p.cleared {
		p.cleared = true
		j.s.own.clear(ctx, p.req.Queue, names[0])
		return errAgain
	}
	return &driver.TakenError{Queue: p.req.Queue, First: first[0], Count: len(names)}
}
