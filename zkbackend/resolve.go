package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// resolve finds out whether an attempt without an answer was carried out. Nil means that it was.
// After an error, j.guid shows what is known: if it is "", nothing of the attempt is there, and
// its entries are debris if it is carried out later. Otherwise the outcome is still unknown.
func (j *join) resolve(ctx context.Context, unknown *conn.UnknownError) error {
	if errors.Is(unknown, driver.ErrSessionOver) || ctx.Err() != nil {
		return unknown
	}
	switch found, err := j.find(ctx); {
	case err != nil:
		return err
	case found == len(j.parts):
		return nil
	}
	return j.undone(ctx, errAgain)
}

// find returns how many entries of the attempt are there, and sets the path of each that a listing
// has shown. The Sync before the listing makes the server show all that was proposed before. On the
// connection of the attempt the listing is carried out behind it.
func (j *join) find(ctx context.Context) (found int, err error) {
	var lists, stats batch
	for _, p := range j.parts {
		lists.addFolder(p.folder, func(a conn.Answer) {
			i := slices.IndexFunc(a.Children, func(c string) bool { return strings.HasPrefix(c, j.guid) })
			if i < 0 {
				return
			}
			p.path = p.folder + "/" + a.Children[i]
			n, _ := parseName(a.Children[i])
			p.ahead = behind(parseNames(a.Children), n.place()-1)
			stats.add(conn.Exists(p.path), func(a conn.Answer) error {
				if a.Err == nil { // otherwise another client has deleted it
					found++
					p.zxid = a.Stat.Czxid
				}
				return nil
			})
		})
	}
	if err := lists.run(ctx, j.s, true); err != nil {
		return 0, err
	}
	return found, stats.run(ctx, j.s, false)
}

// undone deletes the entries of the attempt, and the records that its Ops have made where none
// was. It returns err if they are deleted, and otherwise the reason why they are not. An entry that
// no listing has shown counts as debris from then on. Of one attempt a listing may show some entries
// and not others, because it was carried out between two listings.
func (j *join) undone(ctx context.Context, err error) error {
	var reqs []driver.LeaveRequest
	for _, p := range j.parts {
		_, text := split(p.path)
		if n, ok := parseName(text); ok {
			ref := driver.Ref{Queue: p.req.Queue, Key: p.path, Place: n.place()}
			reqs = append(reqs, driver.LeaveRequest{Ref: ref, Ops: p.ops.undo()})
		}
	}
	if _, failed := j.s.Leave(ctx, reqs...); failed != nil {
		return failed // and the next call needs the Ops of the attempt
	}
	for _, p := range j.parts {
		if p.path == "" {
			j.s.own.expectLate(p.key(j.guid), p.ops.undo())
		}
	}
	j.end()
	for _, p := range j.parts {
		p.ops = newOps(j.s, &sender{}, p.req.Queue, p.req.Ops)
	}
	return err
}

// settle is PendingError.Settle.
func (j *join) settle(ctx context.Context) error {
	j.settling.Lock()
	defer j.settling.Unlock()
	if j.guid == "" {
		return nil
	}
	_, err := j.find(ctx)
	if err == nil {
		err = j.undone(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("zookeeper: settle %q: %w", j.parts[0].req.Queue, err)
	}
	return nil
}

// requireEmpty reads a folder that must be empty. The error is a *driver.TakenError if it is not.
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
		// The entries may be gone, and the follower may not know that yet. That it may not know
		// a new entry does no harm, because the transaction requires the folder's version.
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
	if err := p.describe(ctx, first, nil); err != nil && !driver.Incurable(err) {
		return err
	}
	if j.s.own.isDebris(&first[0]) && !p.cleared {
		p.cleared = true
		j.s.own.clear(ctx, p.req.Queue, names[0])
		return errAgain
	}
	return &driver.TakenError{Queue: p.req.Queue, First: first[0], Count: len(names)}
}
