package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// resolve finds out what became of an attempt that was not answered. Nil means that it was
// carried out. With errAgain it was not, but may be late: then its entries are debris.
func (j *join) resolve(ctx context.Context, unknown *conn.UnknownError) error {
	if errors.Is(unknown, driver.ErrSessionOver) || ctx.Err() != nil {
		return unknown
	}
	found, err := j.find(ctx)
	switch {
	case err != nil:
		return err
	case found == len(j.parts):
		return nil
	case found > 0: // another client has deleted one of the entries
		return j.undone(ctx, errAgain)
	}
	if j.end(); errors.Is(unknown, driver.ErrRefused) { // it is too long for the servers
		return unknown.Err
	}
	return errAgain
}

// find looks for the entries of the attempt, and returns how many it has found; with none,
// it takes in that none was made so far. A Sync flushes what was proposed before. On the
// connection on which the attempt was sent, the listing comes after it.
func (j *join) find(ctx context.Context) (found int, err error) {
	var list, look batch
	for _, p := range j.parts {
		list.addFolder(p.folder, func(a conn.Answer) {
			i := slices.IndexFunc(a.Children, func(c string) bool { return strings.HasPrefix(c, j.guid) })
			if i < 0 {
				return
			}
			p.path = p.folder + "/" + a.Children[i]
			n, _ := parseName(a.Children[i])
			p.ahead = behind(parseNames(a.Children), n.place()-1)
			look.add(conn.Exists(p.path), func(a conn.Answer) error {
				if a.Err != nil {
					p.path = ""
					return nil //nolint:nilerr // it was deleted meanwhile
				}
				found++
				p.zxid = a.Stat.Czxid
				return nil
			})
		})
	}
	if err := list.run(ctx, j.s, true); err != nil {
		return 0, err
	}
	if err := look.run(ctx, j.s, false); err != nil {
		return 0, err
	}
	if len(look.reqs) == 0 {
		for _, p := range j.parts {
			j.s.own.expectLate(p.key(j.guid), p.ops.undo())
		}
		j.end()
	}
	return found, nil
}

// undone returns err when the entries of the attempt that are known are deleted, with what
// its Ops have made where nothing was, and else why they are not.
func (j *join) undone(ctx context.Context, err error) error {
	var reqs []driver.LeaveRequest
	for _, p := range j.parts {
		_, text := split(p.path)
		if n, ok := parseName(text); ok {
			ref := driver.Ref{Queue: p.req.Queue, Key: p.path, Place: n.place()}
			reqs = append(reqs, driver.LeaveRequest{Ref: ref, Ops: p.ops.undo()})
		}
		p.ops = newOps(j.s, p.req.Queue, p.req.Ops)
	}
	if _, failed := j.s.Leave(ctx, reqs...); failed != nil {
		return failed
	}
	j.end()
	return err
}

// settle is PendingError.Settle.
func (j *join) settle(ctx context.Context) error {
	j.settling.Lock()
	defer j.settling.Unlock()
	if j.guid == "" {
		return nil
	}
	found, err := j.find(ctx)
	if err == nil && found > 0 {
		err = j.undone(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("zookeeper: settle %q: %w", j.parts[0].req.Queue, err)
	}
	j.end()
	return nil
}

// peek reads a folder that must be empty. The error is a *driver.TakenError if it is not.
func (j *join) peek(ctx context.Context, p *joinPart) error {
	var names []entryName
	read := func(fresh bool) error {
		var b batch
		b.addFolder(p.folder, func(a conn.Answer) { names, p.version = parseNames(a.Children), a.Stat.Version })
		return b.run(ctx, j.s, fresh)
	}
	err := read(false)
	if len(names) > 0 && !j.s.conn.Standalone() {
		// A follower may not know yet that the last of them has left. That it does not
		// know of a new one does no harm: the version is required.
		err = read(true)
	}
	if err != nil || len(names) == 0 {
		return err
	}
	return j.taken(ctx, p, names)
}

// taken is the error of a queue that is not empty. That the first entry cannot be read is
// no reason to fail in another way.
func (j *join) taken(ctx context.Context, p *joinPart, names []entryName) error {
	r := newReader(j.s, p.req.Queue)
	first := r.entries(names[:1])
	if err := r.describe(ctx, first, nil); err != nil && !driver.Incurable(err) {
		return err
	}
	if j.s.own.isDebris(&first[0]) && !p.cleared {
		p.cleared = true
		j.s.own.clear(ctx, p.req.Queue, names[0])
		return errAgain
	}
	return &driver.TakenError{Queue: p.req.Queue, First: first[0], Count: len(names)}
}
