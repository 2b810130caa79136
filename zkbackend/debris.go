package zkbackend

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// A join whose answer was lost is looked for by Sync and a listing on a newer
// connection. If its entry is not there, that is no proof that it will never be: a
// server closes the old connection of a session when the newer one comes, but a
// server with Netty (which TLS needs) goes on through the bytes that it had read
// of the old one. Only where the session has moved to another server are they
// refused. So an entry can appear that no caller knows, and its queue would wait
// for it until the session ends. Such an entry is debris. The session recognises
// it by its owner, which is this session, and by its name, which is not in
// sess.mine; a join notes its name there before it sends anything. Names have a
// random part, so the deletion of debris never hits another entry.
//
// Debris is found in two ways: by every read of an entry that shows its owner, and
// by listing a queue again after each join that was not there.

// lateJoin is an attempt of a join that was not there, and may still come.
type lateJoin struct {
	mark
	due  driver.Instant // when the queue is listed
	last bool           // ... for the last time
}

// soonest is how long after a join was not there its queue is listed again. It is
// listed once more after a TTL.
func (s *sess) soonest() time.Duration { return min(time.Second, s.ttl/2) }

// notThere takes in that an attempt was not answered, and has made no entry yet.
func (j *join) notThere() {
	s := j.s
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.b.clock.Now().Add(s.soonest())
	for _, p := range j.parts {
		s.late = append(s.late, lateJoin{mark: p.mark(j.guid), due: due})
	}
	s.expectLate()
}

// expectLate has what may come late looked for when the first of it is due. The
// caller holds s.mu.
func (s *sess) expectLate() {
	if s.expecting || len(s.late) == 0 || s.ctx.Err() != nil {
		return
	}
	s.expecting = true
	due := slices.MinFunc(s.late, func(a, b lateJoin) int { return int(a.due - b.due) }).due
	s.b.clock.AfterFunc(max(due.Sub(s.b.clock.Now()), time.Millisecond), s.lookForLate)
}

// lookForLate lists the queues of the joins that are due.
func (s *sess) lookForLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.b.clock.Now()
	lines := map[string][]string{} // the guids to look for
	var rest []lateJoin
	for _, l := range s.late {
		if l.due <= now {
			lines[l.line] = append(lines[l.line], l.guid)
			if l.last {
				continue
			}
			l.due, l.last = now.Add(s.ttl), true
		}
		rest = append(rest, l)
	}
	s.late, s.expecting = rest, false
	s.expectLate()
	if len(lines) == 0 {
		return
	}
	s.goes(func() {
		names := make([]string, 0, len(lines))
		for line := range lines {
			names = append(names, line)
		}
		_ = each(s.ctx, names, func(ctx context.Context, i int) error {
			s.clearLate(ctx, names[i], lines[names[i]])
			return nil
		})
	})
}

// clearLate deletes the entries of a queue that joins have made late. A queue that
// cannot be listed now is listed again, or the session has ended.
func (s *sess) clearLate(ctx context.Context, line string, guids []string) {
	dir := s.b.lay.dir(line)
	names, err := s.newest(ctx, dir)
	if err != nil {
		return
	}
	for _, guid := range guids {
		i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, guid) })
		if i < 0 {
			continue
		}
		if n, ok := parseNode(names[i]); ok {
			s.clearDebris(ctx, line, n)
		}
	}
}

// sight takes in that an entry was read, and whose it is: debris is deleted, in the
// background.
func (s *sess) sight(line string, n node, owner int64) {
	if !s.isDebris(line, n, owner) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goes(func() { s.clearDebris(s.ctx, line, n) })
}

// isDebris reports whether an entry that was read belongs to this session, and no
// caller knows it. It may be being deleted already.
func (s *sess) isDebris(line string, n node, owner int64) bool {
	if owner != s.who.id || n.guid == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.mine[mark{line, n.guid}]
	return known == nil || known.debris != nil
}

// clearDebris deletes an entry that no caller knows, with what was made with it, or
// waits until that was tried.
func (s *sess) clearDebris(ctx context.Context, line string, n node) {
	m := mark{line, n.guid}
	s.mu.Lock()
	if known := s.mine[m]; known != nil {
		s.mu.Unlock()
		if known.debris != nil { // it is being deleted already
			select {
			case <-known.debris:
			case <-ctx.Done():
			}
		}
		return
	}
	tried := make(chan struct{})
	defer close(tried)
	s.mine[m] = &notes{slot: -1, valued: n.valued, enters: true, leaving: true, debris: tried}
	s.mu.Unlock()
	ref := driver.Ref{Line: line, Key: s.b.lay.dir(line) + "/" + n.name, Place: n.seq}
	del := func() error {
		_, err := s.LeaveAll(ctx, []driver.LeaveRequest{{Ref: ref, Clean: true}})
		return err
	}
	err := del()
	if errors.Is(err, driver.ErrDenied) { // its name may be in a ledger that we may not read
		s.note(m, func(k *notes) { k.enters = false })
		err = del()
	}
	if err == nil {
		s.cfg.Logger.Info("zookeeper: deleted an entry of a join that was carried out late", "path", ref.Key)
		return
	}
	s.forgetNotes(m)
	if !errors.Is(err, driver.ErrSessionOver) && ctx.Err() == nil {
		s.cfg.Logger.Warn("zookeeper: cannot delete an entry of a join that was carried out late", "path", ref.Key, "err", err)
	}
}
