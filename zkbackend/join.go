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

// join is one call of Join, over all its attempts. Each attempt is one transaction. Its entries
// share a new random part, by which the session finds out whether the attempt was carried out.
//
// The transaction makes each entry, and then writes its folder's data. The answer to the create
// does not show the czxid, but the answer to the write has the folder's Stat. Its Mzxid is this
// transaction, which is the entry's czxid. Its NumChildren counts the queue, and with it
// children that are no entries.
//
// The write empties the folder. So the first join of a session in a folder finds out whether that
// is a node of another program, with data: see require.
type join struct {
	s     *zkSession
	parts []*joinPart

	// The current attempt. guid is "" while no entry of any attempt can exist, except as debris:
	// see registry.
	guid string
	sent transaction

	settling sync.Mutex
}

// joinPart is what a join has to do with one queue.
type joinPart struct {
	reader
	req     driver.JoinRequest
	version int32 // of the folder's data, for IfEmpty; -1 otherwise
	used    bool  // the session has an entry in the folder, or has had one
	fresh   bool  // this join has made the folder
	ops     *opSet
	cleared bool // debris that was first in the queue was cleared once

	// What is known of the entry that the current attempt has made. path is "" if it made none.
	path  string
	zxid  int64 // of the transaction
	ahead int   // how many children the folder has besides the entry
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
		j.parts = append(j.parts, &joinPart{reader: newReader(s, r.Queue), req: r, version: -1, ops: newOps(s, &sender{}, r.Queue, r.Ops)})
	}
	return j, nil
}

// tooLong is the error of n bytes of data.
func tooLong(n int) error {
	return fmt.Errorf("%w: data of %d bytes, more than %d", driver.ErrRefused, n, maxData)
}

func (p *joinPart) key(guid string) ownKey { return ownKey{p.req.Queue, guid} }

// run makes attempts until one is carried out. If it returns an error and j.guid is set, the
// outcome of that attempt is unknown: its entries may exist, or appear later.
func (j *join) run(ctx context.Context) ([]driver.Joined, error) {
	for {
		switch err := j.prepare(ctx); {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return nil, err
		}
		if err := j.begin(); err != nil {
			return nil, err
		}
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

// errAgain: nothing is left of the attempt, so run makes another one, at once: another client has
// changed something meanwhile. Not handled: folders that are removed all the time. With a removal every
// millisecond each of 2660 joins in new folders succeeded.
var errAgain = errors.New("zookeeper: nothing is left of an attempt to join")

// prepare reads what the next transaction requires.
func (j *join) prepare(ctx context.Context) error {
	if err := j.require(ctx); err != nil {
		return err
	}
	for _, p := range j.parts {
		if p.req.IfEmpty {
			if err := j.requireEmpty(ctx, p); err != nil {
				return err
			}
		}
		if err := p.ops.prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

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
		if p.used || p.fresh || p.req.IfEmpty { // that reads it in every attempt
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
		if !p.fresh {
			return errAgain
		}
	}
	return nil
}

// makeFolder makes the folder of a queue. If another client was faster, the next attempt reads it.
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

// begin makes the transaction of a new attempt. It registers the entries before they can exist,
// so that no read takes them for debris. After an error nothing was sent.
func (j *join) begin() error {
	s := j.s
	j.guid, j.sent = random(guidLen/2), nil
	for i, p := range j.parts {
		r := &p.req
		prefix := s.b.lay.prefix(j.guid, s.seal != nil, *r)
		n, _ := parseName(prefix + "0000000000")
		if err := s.own.expect(p.key(j.guid), n, r); err != nil {
			j.end()
			return err
		}
		j.sent = append(j.sent,
			step{role: toCreate, of: i, req: create(p.folder+"/"+prefix, r.Data, zk.FlagEphemeral|zk.FlagSequence, s.entryACL)},
			step{role: toCount, of: i, req: setData(p.folder, nil, p.version)})
		if !p.used { // the session must be able to delete the entry
			for _, st := range touching(p.folder, s.acl) {
				st.of = i
				j.sent = append(j.sent, st)
			}
		}
		if r.Detail != nil {
			path := s.b.lay.details(r.Queue) + "/" + j.guid
			j.sent = append(j.sent, step{role: toDetail, of: i, req: create(path, r.Detail, zk.FlagEphemeral, s.entryACL)})
		}
		j.sent = append(j.sent, p.ops.steps(i)...)
	}
	return nil
}

// end ends an attempt of which nothing is left.
func (j *join) end() {
	for _, p := range j.parts {
		j.s.own.forget(p.key(j.guid))
		p.path = ""
	}
	j.guid = ""
}

// refused decides about a step that a server has refused. Nil means that the next attempt may be
// carried out.
func (j *join) refused(ctx context.Context, st step, err error) error {
	p := j.parts[st.of]
	folder := p.folder
	_, deletes := st.req.(*zk.DeleteRequest)
	switch {
	case isClassified(err):
		return err // it was not sent
	case st.role == toTouch && deletes:
		return translate(err, "DELETE", folder)
	case st.role == toOp:
		return p.ops.refused(ctx, st, err)
	case st.role == toCount && errors.Is(err, zk.ErrBadVersion):
		return nil // another entry was made since the folder was read
	case st.role == toCount:
		return translate(err, "WRITE", folder)
	case st.role == toDetail && isMissing(err):
		_, err = j.s.folders.ensure(ctx, j.s.b.lay.details(p.req.Queue))
		return err
	case st.role == toDetail:
		folder = j.s.b.lay.details(p.req.Queue)
	case isMissing(err):
		return j.makeFolder(ctx, p)
	}
	return translate(err, "CREATE", folder)
}

// answered sets what the answer to the transaction shows of the entries.
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

// made returns the answers to an attempt that was carried out. With late, its answer was lost and
// listings have shown that, so what is known of the queues is of a time after the join.
//
// The attempt fails if an entry has one of the last numbers, or is gone by now, or if another
// entry is ahead although the queue must be empty. Then made deletes what the attempt has made.
// Only if that fails is j.guid still set.
func (j *join) made(ctx context.Context, late bool) ([]driver.Joined, error) {
	joined := make([]driver.Joined, len(j.parts))
	var reads batch
	var failed error
	for i, p := range j.parts {
		_, text := split(p.path)
		n, ok := parseName(text)
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: the server named the entry %q", driver.ErrRefused, p.path)
		case n.isLast():
			return nil, j.undone(ctx, fmt.Errorf("%w: %w: an entry in %s got the number %d: when the queue is empty, delete that node",
				driver.ErrRefused, ErrSequence, p.folder, n.seq))
		}
		p.ops.done(p.zxid)
		j.s.used.put(p.folder, true, nil)
		e := n.entry(p.req.Queue, p.folder)
		e.Token, e.Session, e.Data, e.Detail = p.zxid, j.s.ID(), p.req.Data, p.req.Detail
		if own := j.s.own.of(p.key(j.guid)); own != nil {
			own.token = p.zxid
		}
		joined[i] = driver.Joined{Entry: e, View: driver.View{Count: p.ahead, Complete: p.ahead == 0}, Ops: p.ops.results()}
		// A long queue is not listed for each entry that joins: the engine reads it once for all.
		list := p.ahead > 0 && (p.ahead <= atOnce || p.req.IfEmpty)
		if list {
			reads.addFolder(p.folder, func(a conn.Answer) {
				names := parseNames(a.Children)
				end := behind(names, n.place()-1)
				switch {
				case end == len(names) || names[end].text != n.text:
					// Another client has deleted it. The list does not show what was ahead of it.
					failed = errAgain
				case p.req.IfEmpty && end > 0: // a program that does not write the folder was faster
					failed = j.taken(ctx, p, names[:end])
				}
				joined[i].View = p.view(names[:end], driver.ReadRequest{Upto: n.place(), Nearest: p.req.Nearest})
			})
		}
		j.addRecords(&reads, p, &joined[i].View, late || list)
	}
	err := reads.run(ctx, j.s, false)
	for i := range joined {
		if v := &joined[i].View; err == nil && failed == nil && len(v.Entries) > 0 {
			err = j.parts[i].inspect(ctx, v.Entries, nil, false)
		}
	}
	if err = cmp.Or(failed, err); err != nil {
		return nil, j.undone(ctx, err)
	}
	return joined, nil
}

// addRecords adds the reads of the records that the request has named. They must not be older
// than the entries of the view. The record of an Op is of the moment of the join, so with late,
// when the entries are of a later moment, it is read too.
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
