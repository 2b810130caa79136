package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// maxLag is how far a stream may be behind what the session has written.
	maxLag = time.Second
	// tickTime is how often the stream is checked.
	tickTime = 250 * time.Millisecond
)

// stream is one gRPC stream to one member, with the watches of a session. The Hub's mutex
// guards it, but for rpc: only the reader receives and only the sender sends.
//
// Why a stream is given up:
//
//	errSilent   a message was due for silence, or the server took none for so long
//	errUnsent   a request could not be sent
//	errLagging  its member is a second behind what the session wrote
//	errStale    the login that it was opened with has expired
//	any other   the server or the connection has ended it
//
// The next stream takes a turn of the client's connection if this one was useful: that the
// connection was good once is the best that is known of it. Otherwise, and after errLagging, it
// goes to the next endpoint by name.
type stream struct {
	h       *Hub
	to      rpc.Attempt // where it goes
	rpc     pb.Watch_WatchClient
	silence time.Duration // the stream is given up if a message is due for so long

	out  []*pb.WatchRequest // what the sender is to send, in this order
	wake chan struct{}      // has one if there is something in out

	// byID are the watches that the server was asked for. awaited is how many created notices
	// are due, also of watches that were forgotten meanwhile. live is how many of byID the
	// server has confirmed. useful: it has confirmed one at some time.
	byID    map[int64]*serverWatch
	awaited int
	live    int
	useful  bool

	received driver.Instant // when the last message came, or since when one is due
	probed   driver.Instant // when the server was last asked for a progress message
	repaired driver.Instant // when repair last tried

	// rev is the newest revision in a message: the member has reported all up to there. It only
	// rises.
	rev int64

	// wrote is a write of the session that no message has reached; 0: none. behind is since
	// when. While it is not 0, later writes do not change it: the stream must reach this one.
	wrote  int64
	behind driver.Instant
}

var (
	errSilent  = errors.New("no answer on the watch stream")
	errStale   = errors.New("the login of the watch stream has expired")
	errLagging = errors.New("the member of the watch stream lags behind")
	errUnsent  = errors.New("the watch stream takes no requests")
)

// run keeps a stream, until Stop. fails is how many streams in a row were of no use: with each,
// the next one is given more time, and comes later.
func (h *Hub) run() {
	var to rpc.Attempt
	for fails := 0; ; fails++ {
		st := &stream{h: h, to: to, wake: make(chan struct{}, 1), byID: make(map[int64]*serverWatch), silence: 2 * h.Quiet << min(fails, 4)}
		err := st.serve()
		to.Next(h.Send)
		if st.useful {
			fails = 0
		}
		if st.useful && !errors.Is(err, errLagging) {
			to = rpc.Attempt{}
		}
		h.broken(err, fails > 0)
		d := 10 * time.Millisecond << min(fails, 6)
		if !driver.Sleep(h.ctx, h.Send.Clock, d/2+rand.N(d/2)) {
			return
		}
	}
}

// broken handles the end of the stream: every armed sub gets Lost, and is armed again on the
// next stream. That a login has expired is logged only if it happens again at once.
func (h *Hub) broken(err error, again bool) {
	h.mu.Lock()
	h.stream = nil
	for _, w := range h.watches {
		h.lose(w)
	}
	log := false
	if !h.closed && (again || !errors.Is(err, errStale)) {
		log, _ = h.outage.Failed(h.Send.Clock.Now())
	}
	h.mu.Unlock()
	if log {
		h.Logger.Warn("etcd: watch stream broken, making a new one", "lease", h.Session, "err", err)
	}
	h.drain()
}

// lose reports to the subs of a watch that events may be missing. What was known of its keys
// does not count any more.
func (h *Hub) lose(w *serverWatch) {
	w.live, w.last = false, nil
	w.each(func(x *sub) { h.put(x, driver.Lost, 0) })
}

// serve opens the stream, asks for all watches on it, and receives until it ends. It
// returns why.
func (st *stream) serve() (err error) {
	h := st.h
	ctx, cancel := context.WithCancelCause(rpc.Route(clientv3.WithRequireLeader(h.ctx), st.to))
	defer cancel(nil)
	// The stream ends with its context, so a context with a timeout cannot bound the opening.
	late := time.AfterFunc(st.silence, func() { cancel(errSilent) })
	st.rpc, err = h.Send.Watch.Watch(ctx, h.Send.Options...)
	inTime := late.Stop()
	if err != nil || !inTime {
		return driver.JoinErrors(err, context.Cause(ctx))
	}
	h.mu.Lock()
	h.stream = st
	for _, w := range h.watches {
		st.create(w)
	}
	h.mu.Unlock()
	h.wg.Go(func() { // ends with the stream's context
		if err := st.send(ctx, cancel); err != nil {
			cancel(err)
		}
	})
	for err == nil {
		var resp *pb.WatchResponse
		resp, err = st.rpc.Recv()
		if err != nil {
			break
		}
		h.mu.Lock()
		err = st.receive(resp)
		h.mu.Unlock()
		h.drain()
	}
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, errUnsent) && status.Code(err) != codes.Canceled {
		return err
	}
	return cause // it explains more than the error of a cancelled stream
}

// send sends what is queued, and checks the stream at each tick, until ctx ends. An error
// means that the stream must be given up. Usually Recv returns the reason then; but if grpc
// has silently repeated the stream on another connection, Recv goes on, and the requests
// that could not be sent are lost.
//
// Send blocks while the server takes nothing and grpc's buffers are full. There is no tick
// meanwhile, so a timer of its own gives the stream up.
func (st *stream) send(ctx context.Context, giveUp context.CancelCauseFunc) (err error) {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	stuck := time.AfterFunc(st.silence, func() { giveUp(errSilent) })
	stuck.Stop() // until a Send
	for err == nil {
		ticked := false
		select {
		case <-ctx.Done():
			return nil
		case <-st.wake:
		case <-tick.C:
			ticked = true
		}
		st.h.mu.Lock()
		if ticked {
			err = st.tick(st.h.Send.Clock.Now())
		}
		out := st.out
		st.out = nil
		st.h.mu.Unlock()
		st.h.drain()
		for _, r := range out {
			stuck.Reset(st.silence)
			err := st.rpc.Send(r)
			stuck.Stop()
			if err != nil {
				return fmt.Errorf("%w: %w", errUnsent, err)
			}
		}
	}
	return err
}

// tick checks the stream. An error means that it must be given up. In this order:
//
//	watches without subs, for longer than linger      end
//	nothing came, although a message is due           the stream is given up
//	the session has written what no message reached   from now on, the stream is behind
//	nothing came for Quiet, or it is behind for half  a progress message is asked for: the server
//	of maxLag                                         answers with its revision
//	what was refused, or could not be read            is tried again
func (st *stream) tick(now driver.Instant) error {
	h := st.h
	for _, w := range h.watches {
		if len(w.subs) == 0 && now.Sub(w.idle) > linger {
			h.forget(w)
		}
	}
	if st.live+st.awaited > 0 && now.Sub(st.received) > st.silence {
		return errSilent
	}
	wrote := h.wrote.Load()
	if st.wrote == 0 && wrote > st.rev {
		st.wrote, st.behind = wrote, now
	}
	late := st.wrote != 0 && now.Sub(st.behind) > maxLag/2
	quiet := now.Sub(max(st.received, st.probed)) > h.Quiet
	if quiet || late {
		// The server answers only if the stream has a watch, and while no watch of it is
		// behind.
		if st.live > 0 {
			st.push(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
		}
		st.probed = now
	}
	st.repair(now)
	h.readNow()
	return nil
}

// repair tries again what the server has refused, and reads that have failed. A permission
// that was missing may have been given.
func (st *stream) repair(now driver.Instant) {
	if now.Sub(st.repaired) < st.silence {
		return
	}
	st.repaired = now
	for _, w := range st.byID {
		if w.live {
			w.each(func(x *sub) {
				if !x.armed {
					st.h.arm(x)
				}
			})
		} else if now.Sub(w.created) > st.silence {
			st.forget(w)
			st.create(w)
		}
	}
}

// receive handles one message. An error means that the stream must be given up.
//
//	created, and cancelled     the server refuses a watch, see denied
//	created                    the watch is live: its subs become armed, or their entries are read
//	of no watch                a progress message, or about a watch that was forgotten
//	cancelled                  the server has ended the watch: its subs get Lost, and it is asked
//	                           for anew
//	any other                  events, in the order of their revisions
func (st *stream) receive(resp *pb.WatchResponse) error {
	h := st.h
	st.received = h.Send.Clock.Now()
	st.rev = max(st.rev, resp.Header.GetRevision())
	if st.rev >= st.wrote {
		st.wrote = 0
	} else if st.received.Sub(st.behind) > maxLag && len(h.Send.Endpoints()) > 1 {
		// A progress message was asked for after the write, and an up-to-date member would
		// have answered with its revision. The next stream goes to the next endpoint.
		return errLagging
	}
	w := st.byID[resp.WatchId]
	switch {
	case resp.Created && resp.Canceled:
		st.awaited--
		h.readSoon() // it may have waited for this answer only
		return st.denied(resp.CancelReason)
	case resp.Created:
		st.awaited--
		if w != nil { // nil: it was forgotten meanwhile
			w.live, w.rev = true, resp.Header.Revision
			st.live++
			st.useful = true
			h.outage.Over(st.received)
			w.each(func(x *sub) {
				x.Shown = max(x.Shown, h.Floor(x.Queue)) // the stream before may have ended long ago
				h.arm(x)
			})
		}
		h.readSoon()
	case w == nil:
	case resp.Canceled:
		st.forget(w)
		h.lose(w)
		st.create(w)
	default:
		for _, ev := range resp.Events {
			h.event(w, ev)
		}
	}
	return nil
}

// denied handles that the server refuses a watch; the answer does not show which one. A
// stream keeps the login that it was opened with, so if that has expired, a new stream is
// needed. After any other reason, repair asks for the watch again.
func (st *stream) denied(reason string) error {
	for _, e := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
		if strings.Contains(reason, rpctypes.ErrorDesc(e)) {
			return errStale
		}
	}
	if !st.h.refused {
		st.h.refused = true
		st.h.Logger.Warn("etcd: the server refused a watch, trying again", "lease", st.h.Session, "reason", reason)
	}
	return nil
}
