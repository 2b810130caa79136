package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// This file has what follows a join whose answer was lost. join has the table of its states.
//
// # What was done
//
// The session sends a Sync and lists each queue (find). The attempt's entries are those whose names
// begin with its random part:
//
//	there        what follows
//	all          the attempt was carried out, and made returns the entries
//	none         it was not carried out, or will be late: undone, and another attempt
//	some         it was carried out between two listings, or another client has deleted some:
//	             undone, and another attempt
//	not known    the context has ended, or the session: the error is a *driver.PendingError, and
//	             its Settle does the same later
//
// undone deletes what find has shown, with the records that the attempt has made. What find has not
// shown is debris from then on.
//
// # Debris
//
// An entry that is not there after a Sync and a listing can still appear: a server with Netty, which
// TLS needs, goes on with what it has read from the old connection. No caller knows such an entry, and
// the queue would wait for it until the session ends. So the session deletes it when it is seen.
//
// The session recognises debris by its owner, which is this session, and by its name, which is not
// registered: see registry. Names have a random part, so no other entry is deleted. Debris is found by
// every read that shows the owner of an entry (onRead), by a join that must find the queue empty
// (isDebris), and by two later listings of the queue (expectLate).

// resolve finds out whether an attempt without an answer was carried out. Nil means that it was. After
// errAgain the state is settled. After another error it is settled or not, as undone leaves it.
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
			i := indexOf(a.Children, j.guid)
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

// indexOf returns the index of the child whose name begins with that random part, or -1.
func indexOf(children []string, guid string) int {
	return slices.IndexFunc(children, func(c string) bool { return strings.HasPrefix(c, guid) })
}

// undone deletes the entries of the attempt, and the records that its Ops have made where none
// was. If it can, it returns err, and the state is settled. Otherwise it returns why it cannot, and
// the state is unsettled. An entry that no listing has shown counts as debris from then on. Of one
// attempt a listing may show some entries and not others, because it was carried out between two
// listings.
func (j *join) undone(ctx context.Context, err error) error {
	var reqs []driver.LeaveRequest
	for _, p := range j.parts {
		_, text := split(p.path)
		n, shown := parseName(text)
		if shown {
			ref := driver.Ref{Queue: p.req.Queue, Key: p.path, Place: n.place()}
			reqs = append(reqs, driver.LeaveRequest{Ref: ref, Ops: p.ops.undo()})
		}
	}
	_, failed := j.s.Leave(ctx, reqs...)
	if failed != nil {
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
	if j.state == settled {
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

// expectLate lists the queue of a join whose entry was not there twice: after at most a second,
// and a TTL later. Debris that appears even later is found by reads.
func (r *registry) expectLate(k ownKey, undo []driver.Op) {
	r.mu.Lock()
	r.late[k] = undo
	r.mu.Unlock()
	r.s.conn.Go(func(ctx context.Context) {
		for _, d := range []time.Duration{min(time.Second, r.s.conn.TTL()/2), r.s.conn.TTL()} {
			driver.Sleep(ctx, r.s.b.Info().Clock, d)
			var b batch
			b.addFolder(r.s.b.lay.folder(k.queue), func(a conn.Answer) {
				i := indexOf(a.Children, k.guid)
				if i >= 0 {
					n, _ := parseName(a.Children[i])
					r.clear(ctx, k.queue, n)
				}
			})
			_ = b.run(ctx, r.s, true) // or the session is over
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.late, k)
	})
}

// onRead is called with each entry that was read. It deletes debris in the background.
func (r *registry) onRead(queue string, n entryName, stat zk.Stat) {
	if n.guid != "" && stat.EphemeralOwner == r.s.conn.Owner() && r.of(ownKey{queue, n.guid}) == nil {
		r.s.conn.Go(func(ctx context.Context) { r.clear(ctx, queue, n) })
	}
}

// isDebris reports whether an entry, as a read has shown it, is debris. It is also while another call
// deletes it.
func (r *registry) isDebris(e *driver.Entry) bool {
	n, ok := nameOf(e.Ref)
	if !ok || n.guid == "" || e.Session != r.s.ID() {
		return false
	}
	own := r.of(ownKey{e.Queue, n.guid})
	return own == nil || own.cleared != nil
}

// clear deletes debris, with what its join has made too, or waits until another call has done so. It
// registers the entry for as long, so that one call deletes it, and so that Leave deletes its detail:
// whether it has one is not known.
func (r *registry) clear(ctx context.Context, queue string, n entryName) {
	k := ownKey{queue, n.guid}
	mine := &ownEntry{detail: true, cleared: make(chan struct{})}
	r.mu.Lock()
	known, undo := r.all[k], r.late[k]
	if known == nil {
		r.all[k] = mine
	}
	r.mu.Unlock()
	if known != nil {
		known.awaitCleared(ctx)
		return
	}
	defer close(mine.cleared)
	defer r.forget(k)
	ref := driver.Ref{Queue: queue, Key: r.s.b.lay.folder(queue) + "/" + n.text, Place: n.place()}
	left, err := r.s.Leave(ctx, driver.LeaveRequest{Ref: ref, Ops: undo})
	log := r.s.cfg.Logger
	switch {
	case err == nil && left[0] != driver.WasGone:
		log.Info("zookeeper: deleted an entry of a join that was carried out late", "path", ref.Key)
	case err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrSessionOver):
		log.Warn("zookeeper: cannot delete an entry of a join that was carried out late", "path", ref.Key, "err", err)
	}
}

// awaitCleared blocks until debris was deleted. It does nothing for an entry that is none.
func (e *ownEntry) awaitCleared(ctx context.Context) {
	if e.cleared == nil {
		return
	}
	select {
	case <-e.cleared:
	case <-ctx.Done():
	}
}
