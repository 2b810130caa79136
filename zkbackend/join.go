package zkbackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// join is one call of Join, over all its attempts. Each attempt is one transaction, whose
// entries have a random part of their own, by which it can be found what became of it.
//
// The transaction makes each entry, and writes its folder's data. The second shows what
// the first does not, in the folder's Stat: Mzxid is the transaction that made the entry,
// its czxid, and NumChildren counts the queue, and folders of queues whose names go on
// where this one's ends.
type join struct {
	s     *zkSession
	parts []*joinPart

	// The attempt whose outcome is not known, or that is being undone. guid is "" if nothing
	// is left of any attempt, and nothing will come.
	guid string
	sent transaction

	settling sync.Mutex
}

// joinPart is what a join has to do with one queue.
type joinPart struct {
	req     driver.JoinRequest
	folder  string
	version int32 // of the folder's data, for IfEmpty; -1 otherwise
	ops     *opSet
	cleared bool // debris of the own session was ahead

	path  string // of the entry, if it is known to have been made ...
	zxid  int64  // ... by that transaction
	ahead int    // children of the folder, but for the entry
}

func newJoin(s *zkSession, reqs []driver.JoinRequest) (*join, error) {
	switch {
	case s.cfg.Observer:
		return nil, fmt.Errorf("%w: the session was opened as an Observer", driver.ErrRefused)
	case len(reqs) > maxJoin:
		return nil, fmt.Errorf("%w: %d queues in one transaction, more than %d", driver.ErrRefused, len(reqs), maxJoin)
	}
	j := &join{s: s}
	queues := make(map[string]bool)
	for _, r := range reqs {
		switch {
		case queues[r.Queue]:
			return nil, fmt.Errorf("%w: %q twice in one transaction", driver.ErrRefused, r.Queue)
		case len(r.Data) > maxData:
			return nil, tooLong(len(r.Data))
		}
		queues[r.Queue] = true
		j.parts = append(j.parts, &joinPart{req: r, folder: s.b.lay.folder(r.Queue), version: -1, ops: newOps(s, r.Queue, r.Ops)})
	}
	return j, nil
}

// tooLong is the error of data that no server takes.
func tooLong(n int) error {
	return fmt.Errorf("%w: data of %d bytes, more than %d", driver.ErrRefused, n, maxData)
}

func (p *joinPart) key(guid string) ownKey { return ownKey{p.req.Queue, guid} }

// run makes attempts until one is carried out. If it returns an error and j.guid is set,
// entries of that attempt may be left, or come.
func (j *join) run(ctx context.Context) ([]driver.Joined, error) {
	for {
		switch err := j.prepare(ctx); {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return nil, err
		}
		j.begin()
		a, err := j.s.conn.Once(ctx, j.sent.request())
		unknown, isUnknown := isUnknown(err)
		switch {
		case err == nil:
			err = j.answered(a)
		case isUnknown:
			err = j.resolve(ctx, unknown)
		default:
			j.end()
			if err = j.refused(ctx, j.sent.failed(a), err); err == nil {
				err = errAgain
			}
		}
		if err == nil {
			var joined []driver.Joined
			if joined, err = j.made(ctx, isUnknown); err == nil {
				j.guid = ""
				return joined, nil
			}
		}
		if !errors.Is(err, errAgain) {
			return nil, err
		}
	}
}

// errAgain: nothing is left of the attempt, so another may be made.
var errAgain = errors.New("zookeeper: nothing is left of an attempt to join")

// prepare finds out what the transaction must require.
func (j *join) prepare(ctx context.Context) error {
	for _, p := range j.parts {
		if p.req.IfEmpty {
			if err := j.peek(ctx, p); err != nil {
				return err
			}
		}
		if err := p.ops.prepare(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the transaction of a new attempt, and registers its entries.
func (j *join) begin() {
	s := j.s
	j.guid, j.sent = random(guidLen/2), nil
	for i, p := range j.parts {
		r := &p.req
		prefix := s.b.lay.prefix(j.guid, s.seal != nil, *r)
		n, _ := parseName(prefix + "0000000000")
		s.own.expect(p.key(j.guid), n, r)
		j.sent = append(j.sent,
			step{role: toCreate, of: i, req: create(p.folder+"/"+prefix, r.Data, zk.FlagEphemeral|zk.FlagSequence, s.entryACL)},
			step{role: toCount, of: i, req: setData(p.folder, nil, p.version)})
		if r.Detail != nil {
			path := s.b.lay.details(r.Queue) + "/" + j.guid
			j.sent = append(j.sent, step{role: toDetail, of: i, req: create(path, r.Detail, zk.FlagEphemeral, s.entryACL)})
		}
		j.sent = append(j.sent, p.ops.steps(i)...)
	}
}

// end takes in that nothing is left of the attempt, and nothing will come.
func (j *join) end() {
	for _, p := range j.parts {
		j.s.own.forget(p.key(j.guid))
		p.path = ""
	}
	j.guid = ""
}

// refused takes in why an attempt was not carried out. Nil means that the next may be.
func (j *join) refused(ctx context.Context, st step, err error) error {
	p := j.parts[st.of]
	folder := p.folder
	switch {
	case isClassified(err):
		return err // it was not sent
	case st.role == toOp:
		return p.ops.refused(ctx, st, err, false)
	case st.role == toCount && errors.Is(err, zk.ErrBadVersion):
		return nil // another entry was made since the folder was read
	case st.role == toCount:
		return translate(err, "WRITE", folder)
	case st.role == toDetail:
		folder = j.s.b.lay.details(p.req.Queue)
	}
	if isMissing(err) {
		return j.s.makeFolder(ctx, folder)
	}
	return translate(err, "CREATE", folder)
}

// answered takes in the answer to the transaction.
func (j *join) answered(a conn.Answer) error {
	for i, st := range j.sent {
		switch p := j.parts[st.of]; st.role {
		case toCreate:
			p.path = a.Ops[i].String
		case toCount:
			if a.Ops[i].Stat == nil {
				return fmt.Errorf("%w: the answer to a transaction has the wrong form", driver.ErrRefused)
			}
			p.zxid, p.ahead = a.Ops[i].Stat.Mzxid, int(a.Ops[i].Stat.NumChildren)-1
		default:
		}
	}
	return nil
}

// made takes in that the attempt was carried out. With late, that was found out by listings,
// which are from after the join.
func (j *join) made(ctx context.Context, late bool) ([]driver.Joined, error) {
	joined := make([]driver.Joined, len(j.parts))
	var look batch
	var failed error
	for i, p := range j.parts {
		_, text := split(p.path)
		n, ok := parseName(text)
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: the server named the entry %q", driver.ErrRefused, p.path)
		case n.seq < 0 || n.seq >= sequenceGuard:
			return nil, j.overflow(ctx, p, n)
		}
		p.ops.done(p.zxid)
		e := n.entry(p.req.Queue, p.folder)
		e.Token, e.Session, e.Data, e.Detail = p.zxid, j.s.ID(), p.req.Data, p.req.Detail
		if own := j.s.own.of(p.key(j.guid)); own != nil {
			own.token = p.zxid
		}
		joined[i] = driver.Joined{Entry: e, View: driver.View{Count: p.ahead, Complete: p.ahead == 0}, Ops: p.ops.results()}
		// A long queue is not listed for each entry that joins: its waiters read it together.
		list := p.ahead > 0 && (p.ahead <= atOnce || p.req.IfEmpty)
		if list {
			look.addFolder(p.folder, func(a conn.Answer) {
				names := parseNames(a.Children)
				j.s.checkProtocols(p.req.Queue, names)
				end := behind(names, n.place()-1)
				switch {
				case end == len(names) || names[end].text != n.text:
					// It was deleted. What is ahead now does not show whether it was ever first.
					failed = errAgain
				case p.req.IfEmpty && end > 0: // a foreign entry was faster by a moment
					failed = j.taken(ctx, p, names[:end])
				}
				joined[i].View = newReader(j.s, p.req.Queue).view(names[:end], driver.ReadRequest{Upto: n.place(), Nearest: p.req.Nearest})
			})
		}
		j.addRecords(&look, p, &joined[i].View, late || list)
	}
	err := look.run(ctx, j.s, false)
	for i := range joined {
		if v := &joined[i].View; err == nil && failed == nil && len(v.Entries) > 0 {
			err = newReader(j.s, j.parts[i].req.Queue).look(ctx, v.Entries, nil, false)
		}
	}
	if err = cmp.Or(failed, err); err != nil {
		return nil, j.undone(ctx, err)
	}
	return joined, nil
}

// addRecords adds the reads of the records that the request has named, which must not be
// older than the rest of the view. What an Op shows is of the moment of the join.
func (j *join) addRecords(b *batch, p *joinPart, v *driver.View, late bool) {
	records := make(map[string]driver.Record)
	for _, name := range p.req.Records {
		add := func(r driver.Record) {
			if r.Version != 0 {
				records[name] = r
			}
			v.Records = records // the listing comes before, and makes another view
		}
		op := slices.IndexFunc(p.req.Ops, func(op driver.Op) bool { return op.Record == name })
		if op >= 0 && p.ops.plans[op].state == opDone && !late {
			add(p.ops.plans[op].record)
		} else {
			b.addRecord(j.s, recordKey{p.req.Queue, name}, add)
		}
	}
}
