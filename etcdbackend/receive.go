package etcdbackend

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// receive takes in one message. An error means that the stream is to be made
// anew.
func (st *stream) receive(resp *pb.WatchResponse) error {
	h := st.h
	h.mu.Lock()
	defer h.mu.Unlock()
	st.heard = h.s.b.clock.Now()
	st.worked = true
	switch {
	case resp.Created:
		return st.created(resp)
	case resp.Canceled:
		// Of a watch that was forgotten it is only the answer to that.
		if w := st.byID[resp.WatchId]; w != nil {
			w.each(func(x *sub) { h.put(x, driver.Broken, 0) })
			st.forget(w)
			st.create(w)
		}
		return nil
	case len(resp.Events) == 0:
		st.progress(resp.Header.GetRevision())
		return nil
	}
	if st.order.message() {
		h.disarmOwn() // before the event, which may be out of order
	}
	st.askOrder()
	if w := st.byID[resp.WatchId]; w != nil {
		for _, ev := range resp.Events {
			h.event(w, ev)
		}
	}
	return nil
}

// progress takes in the answer to a ping.
func (st *stream) progress(rev int64) {
	before := st.order.ok
	st.order.answer(len(st.awaiting), rev)
	if !st.order.ok {
		if st.order.wantsTick() {
			st.ping()
		}
		return
	}
	if !before {
		st.h.armOwn()
	}
	st.askOrder()
}

// created takes in the answer to the first watch that awaits one.
func (st *stream) created(resp *pb.WatchResponse) error {
	h := st.h
	if len(st.awaiting) == 0 {
		return errStranger
	}
	w := st.awaiting[0]
	st.awaiting = st.awaiting[1:]
	st.awaited = st.heard
	st.order.created(creation{rev: resp.Header.GetRevision(), sent: w.asked})
	if resp.Canceled {
		return st.refused(resp)
	}
	switch st.byID[resp.WatchId] {
	case w:
	case nil:
		return nil // forgotten in the meantime
	default:
		return errStranger
	}
	w.live, w.rev = true, resp.Header.Revision
	st.live++
	h.warned = false
	w.each(func(x *sub) { h.arm(w, x) })
	return nil
}

// refused takes in that the server does not make a watch. The stream keeps the
// login that it was opened with, so an expired one needs a new stream; without
// permission it is tried again at the next pings, for permissions can be given.
func (st *stream) refused(resp *pb.WatchResponse) error {
	for _, e := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
		if strings.Contains(resp.CancelReason, rpctypes.ErrorDesc(e)) {
			return errStale
		}
	}
	if !st.h.refused {
		st.h.refused = true
		st.h.s.cfg.Logger.Warn("etcd: the server refused a watch, trying again", "lease", st.h.s.ID(), "reason", resp.CancelReason)
	}
	return nil
}
