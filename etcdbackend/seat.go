package etcdbackend

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// seat is one line of a request to join: the entry that is to be made there.
type seat struct {
	s      *leased
	req    driver.JoinRequest
	prefix string
	meta   []byte
	slot   int
	key    string
	create bool // the line had no limit when last seen: make it
}

// newSeat takes a slot.
func (s *leased) newSeat(req driver.JoinRequest) seat {
	st := seat{s: s, req: req, prefix: s.b.lay.prefix(req.Line), meta: req.Meta.Encode()}
	st.takeSlot()
	return st
}

func (st *seat) takeSlot() {
	st.slot = st.s.lines.take(st.req.Line)
	st.key = st.prefix + entryKey{
		lease: st.s.id, slot: st.slot, mode: st.req.Mode, weight: st.req.Weight, valued: st.valued(),
	}.String()
	if st.valued() {
		st.s.lines.setValued(st.req.Line)
	}
}

func (st *seat) valued() bool { return st.req.Value != nil }

// guarded says that the entry is made only if the line has the right limit.
func (st *seat) guarded() bool { return st.req.Limit != 0 && !st.req.Follow }

// conditional says that the entry is made on a condition that can fail.
func (st *seat) conditional() bool { return st.req.IfEmpty || st.guarded() }

// ref names the entry, made at a revision.
func (st *seat) ref(place int64) driver.Ref {
	return driver.Ref{Line: st.req.Line, Key: st.key, Place: place}
}

// put adds what makes the entry. Its answers are read by joined.
func (st *seat) put(r *pb.TxnRequest) {
	lay, line := st.s.b.lay, st.req.Line
	r.Compare = append(r.Compare, createdAt(st.key, 0))
	if st.req.IfEmpty {
		empty := createdAt(st.prefix, 0)
		empty.RangeEnd = prefixEnd(st.prefix)
		r.Compare = append(r.Compare, empty)
	}
	value := st.meta
	if st.valued() {
		value = st.req.Value
	}
	r.Success = append(r.Success,
		opGet(st.front()), // before the own entry, which is not to be counted
		opPut(st.key, value, st.s.id),
	)
	if st.valued() {
		r.Success = append(r.Success, opPut(lay.meta(st.ref(0)), st.meta, st.s.id))
	}
	if st.req.Ledger {
		r.Success = append(r.Success, enterClean(lay.ledger(line), st.key))
	}
	limit := lay.limit(line)
	switch write := opPut(limit, formatLimit(st.req.Limit), 0); {
	case st.guarded() && st.create:
		r.Compare = append(r.Compare, createdAt(limit, 0))
		r.Success = append(r.Success, write)
	case st.guarded():
		r.Compare = append(r.Compare, holds(limit, formatLimit(st.req.Limit)))
	case st.req.Limit != 0: // any limit will do
		r.Success = append(r.Success, opTxn(&pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(limit, 0)},
			Success: []*pb.RequestOp{write},
			Failure: []*pb.RequestOp{opGet(whole(limit))},
		}))
	case st.req.Follow:
		r.Success = append(r.Success, opGet(whole(limit)))
	}
}

// front reads the first key of the line, and how many there are. Among values the
// first entry is likely to have one too.
func (st *seat) front() *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(st.prefix), RangeEnd: prefixEnd(st.prefix), Limit: 1, KeysOnly: st.valued()}
}

// answers are those to a transaction's operations, in order.
type answers []*pb.ResponseOp

func (a *answers) pop() *pb.ResponseOp {
	op := (*a)[0]
	*a = (*a)[1:]
	return op
}

// next is the answer to a read.
func (a *answers) next() *pb.RangeResponse { return a.pop().GetResponseRange() }

// joined reads the answers to what put has added. The error is that the limit
// cannot be read.
func (st *seat) joined(rest *answers, rev int64) (driver.Joined, error) {
	ahead := rest.next()
	rest.pop() // the entry
	j := driver.Joined{Entry: st.entry(rev), Rev: rev}
	st.ahead(&j, ahead)
	if st.valued() {
		rest.pop() // what it says of itself
	}
	if st.req.Ledger {
		if j.Entered = entered(rest.pop()); j.Entered {
			j.Past = driver.PastClean
		}
	}
	var err error
	j.Limit, err = st.limit(rest)
	return j, err
}

// ahead reads the answer to front.
func (st *seat) ahead(j *driver.Joined, resp *pb.RangeResponse) {
	j.Ahead = int(resp.Count)
	kv := first(resp.Kvs)
	if resp.Count != 1 || kv == nil {
		return
	}
	// What is unclear is left to a look.
	if full := !st.valued(); full || !st.s.b.lay.unclear(st.req.Line, kv) {
		j.Known = st.s.b.lay.entries(st.req.Line, resp.Kvs, full)
	}
	if st.s.b.lay.isValued(st.req.Line, kv) {
		st.s.lines.setValued(st.req.Line)
	}
}

// limit reads what put has asked of the limit.
func (st *seat) limit(rest *answers) (int64, error) {
	var r *pb.RangeResponse
	switch {
	case st.guarded() && st.create:
		rest.pop()
		return st.req.Limit, nil
	case st.guarded():
		return st.req.Limit, nil
	case st.req.Limit != 0:
		t := rest.pop().GetResponseTxn()
		if t.Succeeded {
			return st.req.Limit, nil
		}
		r = t.Responses[0].GetResponseRange()
	case st.req.Follow:
		r = rest.next()
	default:
		return 0, nil
	}
	return parseLimit(st.s.b.lay.limit(st.req.Line), first(r.Kvs))
}

// entry is the own entry, made at a revision.
func (st *seat) entry(place int64) driver.Entry {
	return driver.Entry{
		Ref:     st.ref(place),
		Mode:    st.req.Mode,
		Weight:  st.req.Weight,
		Token:   place,
		Session: st.s.ID(),
		Meta:    st.req.Meta,
	}
}

// askWhy adds what tells why the entry was not made. Its answers are read by
// declined.
func (st *seat) askWhy(r *pb.TxnRequest) {
	r.Failure = append(r.Failure, opGet(keyOnly(st.key)))
	if st.req.IfEmpty {
		front := firstOf(st.prefix)
		front.KeysOnly = st.valued()
		r.Failure = append(r.Failure, opGet(front), opGet(st.s.b.lay.someGrants(st.req.Line)))
	}
	if st.guarded() {
		r.Failure = append(r.Failure, opGet(whole(st.s.b.lay.limit(st.req.Line))))
	}
}

// declined reads the answers to what askWhy has added: whether the key is
// there, whether another attempt is worth it because the limit was made or
// deleted, and the reason if there is one.
func (st *seat) declined(rest *answers) (there, changed bool, why error) {
	there = rest.next().Count > 0
	if st.req.IfEmpty {
		front, grants := rest.next(), rest.next()
		if front.Count > 0 {
			taken := st.s.taken(st.req.Line, front, !st.valued())
			taken.First.Granted = st.s.b.lay.grantOf(taken.First, grants.Kvs)
			why = taken
		}
	}
	if !st.guarded() {
		return there, false, why
	}
	limit, err := parseLimit(st.s.b.lay.limit(st.req.Line), first(rest.next().Kvs))
	switch {
	case err != nil:
		return there, false, err
	case limit != 0 && limit != st.req.Limit:
		return there, false, &driver.LimitError{Limit: limit, Asked: st.req.Limit}
	}
	changed = st.create == (limit != 0)
	st.create = limit == 0
	return there, changed, why
}

// adopt takes over an entry that was made by an attempt without an answer.
//
// What the answer told is read once more, as it was before the entry was made.
// To look at the line instead is as long as the line is: answers get lost when
// thousands join at once, and then each of them made the others' later, until
// nothing else was done.
func (st *seat) adopt(ctx context.Context, place int64) (driver.Joined, error) {
	ahead, err := st.before(ctx, place)
	if err != nil {
		return driver.Joined{}, err
	}
	if ahead == nil {
		return st.adoptLate(ctx, place)
	}
	j := driver.Joined{Entry: st.entry(place), Rev: place}
	st.ahead(&j, ahead)
	switch {
	case st.guarded():
		j.Limit = st.req.Limit
	case st.req.Follow:
		key := st.s.b.lay.limit(st.req.Line)
		resp, err := st.s.freshGet(ctx, whole(key), place)
		if err != nil {
			return driver.Joined{}, err
		}
		j.Limit, err = parseLimit(key, first(resp.Kvs))
		return j, err
	}
	return j, nil
}

// before reads what put asks of the line, as of the revision before a place. It
// returns nil if that has been compacted.
func (st *seat) before(ctx context.Context, place int64) (ahead *pb.RangeResponse, err error) {
	r := st.front()
	r.Revision = place - 1
	err = st.s.fresh(ctx, place, func(ctx context.Context, serializable bool) (rev int64, err error) {
		r.Serializable = serializable
		ahead, err = st.s.b.kv.get(ctx, r)
		if errors.Is(err, rpctypes.ErrCompacted) {
			ahead = nil
			return place, nil
		}
		return ahead.GetHeader().GetRevision(), err
	})
	return ahead, err
}

// adoptLate is adopt where the line cannot be seen any more as it was. Those
// ahead can only have become fewer since.
func (st *seat) adoptLate(ctx context.Context, place int64) (driver.Joined, error) {
	req := driver.LookRequest{Line: st.req.Line, Upto: place, NotBefore: place, Limit: st.req.Follow}
	view, err := st.s.look(ctx, req, !st.valued())
	if err != nil {
		return driver.Joined{}, err
	}
	ahead := view.Entries
	if n := len(ahead); n > 0 && ahead[n-1].Place == place {
		ahead = ahead[:n-1]
	}
	j := driver.Joined{Entry: st.entry(place), Rev: place, Ahead: len(ahead), Known: ahead, Limit: view.Limit}
	if st.guarded() {
		j.Limit = st.req.Limit
	}
	return j, nil
}
