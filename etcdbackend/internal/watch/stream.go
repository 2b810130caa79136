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
type stream struct {
	h       *Hub
	to      rpc.Try // where it goes
	rpc     pb.Watch_WatchClient
	silence time.Duration // the stream is given up if a message is due for so long
	out     []*pb.WatchRequest
	wake    chan struct{} // there is something in out

	byID     map[int64]*serverWatch
	live     int            // how many of them the server has confirmed
	useful   bool           // the server has confirmed one
	awaited  int            // how many created notices are due
	received driver.Instant // when the last message came, or since when one is due
	probed   driver.Instant // when the server was last asked for a progress message
	repaired driver.Instant // when repair last tried
	rev      int64          // the newest revision in a message
	wrote    int64          // a write of the session that no message has reached; 0: none
	behind   driver.Instant // since when there is one
}

var (
	errSilent  = errors.New("no answer on the watch stream")
	errStale   = errors.New("the login of the watch stream has expired")
	errLagging = errors.New("the member of the watch stream lags behind")
	errUnsent  = errors.New("the watch stream takes no requests")
)

// run keeps a stream, until Stop.
func (h *Hub) run() {
	var to rpc.Try
	for fails := 0; ; fails++ {
		st := &stream{h: h, to: to, wake: make(chan struct{}, 1), byID: make(map[int64]*serverWatch), silence: 2 * h.Quiet << min(fails, 4)}
		err := st.serve()
		if to.Next(h.Send); st.useful {
			fails = 0
		}
		if st.useful && !errors.Is(err, errLagging) {
			to = rpc.Try{}
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

// lose reports to the subs of a watch that events may be missing.
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
	if st.rpc, err = h.Send.Watch.Watch(ctx, h.Send.Options...); !late.Stop() || err != nil {
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
		if resp, err = st.rpc.Recv(); err == nil {
			h.mu.Lock()
			err = st.receive(resp)
			h.mu.Unlock()
			h.drain()
		}
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
			if stuck.Stop(); err != nil {
				return fmt.Errorf("%w: %w", errUnsent, err)
			}
		}
	}
	return err
}

// tick checks the stream. An error means that it must be given up.
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
	if wrote := h.wrote.Load(); st.wrote == 0 && wrote > st.rev {
		st.wrote, st.behind = wrote, now
	}
	late := st.wrote != 0 && now.Sub(st.behind) > maxLag/2
	if quiet := now.Sub(max(st.received, st.probed)) > h.Quiet; quiet || late {
		// The server answers only if the stream has a watch, and while no watch of it is
		// behind.
		if st.live > 0 {
			st.queue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
		}
		st.probed = now
	}
	st.repair(now)
	h.readChecks()
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
func (st *stream) receive(resp *pb.WatchResponse) error {
	h := st.h
	st.received = h.Send.Clock.Now()
	if st.rev = max(st.rev, resp.Header.GetRevision()); st.rev >= st.wrote {
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
		h.check() // it may have waited for this answer only
		return st.denied(resp.CancelReason)
	case resp.Created:
		if st.awaited--; w != nil { // nil: it was forgotten meanwhile
			w.live, w.rev = true, resp.Header.Revision
			st.live++
			st.useful = true
			h.outage.Over(st.received)
			w.each(func(x *sub) {
				x.Shown = max(x.Shown, h.Floor(x.Queue)) // the stream before may have ended long ago
				h.arm(x)
			})
		}
		h.check()
	case w == nil: // a progress message, or a watch that was forgotten
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
