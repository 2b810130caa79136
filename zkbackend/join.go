package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// maxAll is the most lines that are joined in one transaction, and maxValue the
// most bytes of a value: a request of more than 0xfffff bytes is refused by
// servers with the default jute.maxbuffer, and there are paths, permissions and a
// Meta in it too.
const (
	maxAll   = 32
	maxValue = 1<<20 - 16<<10
)

// Join implements driver.Session.
//
// It is one transaction: create the entry, and write the folder's data. The
// second tells what the first does not, in the folder's Stat: Mzxid is the
// transaction that created the entry, its czxid, and NumChildren counts the
// line. If that counts others they are listed, since they may be folders of
// locks whose names go on where this one's ends.
//
// What else is asked for is done in the same transaction: the limit is checked, a
// value's Meta is put beside the line, the name is entered in the ledger. Only if
// that is refused it takes another.
func (s *sess) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	joined, err := s.join(ctx, []driver.JoinRequest{req})
	if err != nil {
		return driver.Joined{}, err
	}
	return joined[0], nil
}

// JoinAll implements driver.Session. All entries have the same random part, by
// which they are found if the answer is lost.
func (s *sess) JoinAll(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	reqs = slices.Clone(reqs)
	lines := map[string]bool{}
	for i := range reqs {
		r := &reqs[i]
		if r.Limit != 0 || r.Value != nil {
			return nil, fmt.Errorf("zookeeper: join %q with others: %w: with a limit or a value", r.Line, driver.ErrRefused)
		}
		r.Ledger = false
		if lines[r.Line] {
			return nil, fmt.Errorf("zookeeper: join %q: %w: twice in one transaction", r.Line, driver.ErrRefused)
		}
		lines[r.Line] = true
	}
	if len(reqs) > maxAll {
		return nil, fmt.Errorf("zookeeper: join %q and others: %w: %d queues in one transaction, more than %d",
			reqs[0].Line, driver.ErrRefused, len(reqs), maxAll)
	}
	return s.join(ctx, reqs)
}

func (s *sess) join(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	if n := len(reqs[0].Value); n > maxValue {
		return nil, fmt.Errorf("zookeeper: join %q: %w", reqs[0].Line, tooLong(n))
	}
	joined, err := s.newJoin(reqs).run(ctx)
	if err == nil {
		return joined, nil
	}
	if _, ok := errors.AsType[*driver.TakenError](err); ok {
		return nil, err
	}
	if _, ok := errors.AsType[*driver.LimitError](err); ok {
		return nil, err
	}
	if p, ok := errors.AsType[*driver.PendingError](err); ok {
		return nil, &driver.PendingError{Err: fmt.Errorf("zookeeper: join %q: %w", reqs[0].Line, p.Err), Settle: p.Settle}
	}
	return nil, fmt.Errorf("zookeeper: join %q: %w", reqs[0].Line, err)
}

// join is one request to join, over all its attempts. Each attempt has a random
// part of its own, so that what becomes of it can be told.
type join struct {
	s     *sess
	parts []part // one for each line

	limit  int64 // that the line is believed to have; 0: it does not matter
	ledger bool  // the name is to be entered

	large large // its transaction

	guid string                     // of the attempt that is not settled; "" if all are
	late <-chan answer[madeEntries] // its answer, if it may still come

	settling sync.Mutex
}

// part is what a join has to do with one line.
type part struct {
	req     driver.JoinRequest
	dir     string
	version int32  // of the folder's data, for IfEmpty; -1 otherwise
	path    string // of the entry, if that is known to have been made
	cleared bool   // debris was found before it
}

func (p part) mark(guid string) mark { return mark{p.req.Line, guid} }

// madeEntries is the answer to the transaction of a join.
type madeEntries struct {
	zxid   int64
	of     []madeEntry // one for each line
	failed step
}

type madeEntry struct {
	path  string
	ahead int // children of the folder beside this one
}

func (s *sess) newJoin(reqs []driver.JoinRequest) *join {
	j := &join{s: s, limit: reqs[0].Limit}
	for _, r := range reqs {
		j.parts = append(j.parts, part{req: r, dir: s.b.lay.dir(r.Line), version: -1})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.limits[reqs[0].Line]; known != 0 && j.limit != 0 && reqs[0].Follow {
		j.limit = known
	}
	// Behind others there is a name in the ledger, most likely.
	j.ledger = reqs[0].Ledger && !s.crowded[reqs[0].Line]
	return j
}

// run makes attempts until one is answered.
func (j *join) run(ctx context.Context) ([]driver.Joined, error) {
	for {
		if err := j.peek(ctx); err != nil {
			return nil, err
		}
		l, err := j.s.link(ctx)
		if err != nil {
			return nil, err
		}
		made, err := j.attempt(ctx, l)
		if driver.Incurable(err) {
			j.closed() // it was not sent
			return nil, err
		}
		switch outcomeOf(err) {
		case done:
			joined, err := j.made(ctx, made)
			if !errors.Is(err, errVanished) {
				return joined, err
			}
			if err := j.startOver(ctx); err != nil {
				return nil, err
			}
		case refused:
			j.closed()
			if err := j.refused(ctx, made.failed, err); err != nil {
				return nil, err
			}
		case expired:
			j.closed()
			return nil, fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
		case lost:
			tooLong := j.large.lost(l)
			joined, again, err := j.resolve(ctx, err)
			if !again {
				return joined, err
			}
			if tooLong != nil {
				return nil, tooLong
			}
		}
	}
}

// closed notes that nothing is left of the last attempt.
func (j *join) closed() {
	for i := range j.parts {
		j.s.forgetNotes(j.parts[i].mark(j.guid))
		j.parts[i].path = ""
	}
	j.guid = ""
}

// attempt sends the transaction under a new name.
func (j *join) attempt(ctx context.Context, l *link) (madeEntries, error) {
	j.guid = random(guidLen / 2)
	t := j.transaction()
	j.large.size = t.size()
	if err := j.large.check(); err != nil {
		return madeEntries{}, err
	}
	made, err := once(ctx, j.s, l, func(c *zk.Conn) (madeEntries, error) {
		r, err := t.on(c)
		if err != nil {
			return madeEntries{failed: r.failed}, err
		}
		made := madeEntries{of: make([]madeEntry, len(j.parts))}
		for i, s := range t {
			switch stat := r.answers[i].Stat; {
			case s.role == toCreate:
				made.of[s.of].path = r.answers[i].String
			case s.role == toCount && stat == nil:
				return madeEntries{}, errOddAnswer
			case s.role == toCount:
				made.zxid, made.of[s.of].ahead = stat.Mzxid, int(stat.NumChildren)-1
			}
		}
		return made, nil
	})
	j.late = nil
	if a, ok := errors.AsType[*abandonedError[madeEntries]](err); ok {
		j.late = a.late
	}
	return made, err
}

// transaction is what an attempt does.
func (j *join) transaction() (t transaction) {
	s := j.s
	for i, p := range j.parts {
		meta := p.req.Meta.Encode()
		data := meta
		if p.req.Value != nil {
			data = p.req.Value
		}
		t = append(t, step{toCreate, i, &zk.CreateRequest{
			Path: p.dir + "/" + s.b.lay.prefix(j.guid, s.seal != nil, p.req), Data: data,
			Acl: s.entryACL(), Flags: zk.FlagEphemeral | zk.FlagSequence,
		}}, step{toCount, i, &zk.SetDataRequest{Path: p.dir, Data: s.word(p.dir), Version: p.version}})
		n := notes{slot: -1}
		if r := p.req; r.Limit != 0 || r.Value != nil || r.Ledger || r.Kin == driver.KinReadWrite && r.Mode == driver.Exclusive {
			n.meta, n.valued, n.entered = meta, r.Value != nil, j.ledger
		}
		s.expect(p.mark(j.guid), n)
	}
	r := j.parts[0].req
	lay := s.b.lay
	if j.limit != 0 {
		t = append(t, step{toLimit, 0, &zk.CheckVersionRequest{
			Path: lay.limit(r.Line) + "/" + strconv.FormatInt(j.limit, 10), Version: -1,
		}})
	}
	if r.Value != nil {
		t = append(t, step{toTell, 0, &zk.CreateRequest{
			Path: lay.metas(r.Line) + "/" + j.guid, Data: r.Meta.Encode(), Acl: s.entryACL(), Flags: zk.FlagEphemeral,
		}})
	}
	if j.ledger {
		t = append(t, step{toEnter, 0, &zk.CreateRequest{
			Path: lay.ledger(r.Line), Data: ledgerLine{j.guid, driver.PastClean}.bytes(), Acl: s.acl(),
		}})
	}
	return t
}

// errOddAnswer: a transaction was answered by something else. What it did is
// not known.
var errOddAnswer = errors.New("zookeeper: a transaction's answer has the wrong form")

// failedStep is which request of a transaction failed. Those before it are
// answered by no error, those behind it by "runtime inconsistency".
func failedStep(rs []zk.MultiResponse) int {
	return max(slices.IndexFunc(rs, func(r zk.MultiResponse) bool { return r.Error != nil }), 0)
}

// refused looks at why an attempt was not done. Nil means that the next may go
// better.
func (j *join) refused(ctx context.Context, failed step, err error) error {
	p := j.parts[failed.of]
	missing := errors.Is(err, zk.ErrNoNode)
	switch failed.role {
	case toCount:
		switch {
		case errors.Is(err, zk.ErrBadVersion):
			return nil // somebody joined since the folder was read
		case hasCode(err, codeQuota) && j.s.forgetWord(p.dir):
			return nil // an empty word takes no byte
		}
		return translate(err, "WRITE", p.dir)
	case toLimit:
		if missing {
			return j.otherLimit(ctx)
		}
		return translate(err, "READ", j.s.b.lay.limit(p.req.Line))
	case toTell:
		dir := j.s.b.lay.metas(p.req.Line)
		if missing {
			return j.s.makeFolder(ctx, dir)
		}
		return translate(err, "CREATE", dir)
	case toEnter:
		if missing {
			return j.s.makeFolder(ctx, j.s.b.lay.beside(p.req.Line))
		}
		j.ledger = false // another name is there, or we may not write it: Enter will tell
		return nil
	case toCreate, toLeave, toMark, toDelete, toClear, toProbe, toChange:
	}
	if missing {
		return j.s.makeFolder(ctx, p.dir)
	}
	return translate(err, "CREATE", p.dir)
}

// otherLimit takes in that the line has not the limit that was believed.
func (j *join) otherLimit(ctx context.Context) error {
	r := j.parts[0].req
	have, err := j.s.ownLimit(ctx, r.Line, r.Limit)
	switch {
	case err != nil:
		return err
	case have != r.Limit && !r.Follow:
		return &driver.LimitError{Limit: have, Asked: r.Limit}
	}
	j.limit = have
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	jot(j.s.limits, r.Line, have)
	return nil
}

// tooLong is the error of a value that no server takes.
func tooLong(n int) error {
	return fmt.Errorf("%w: a value of %d bytes, more than %d", driver.ErrRefused, n, maxValue)
}
