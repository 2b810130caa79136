package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	// idleStream is after how long without a watch the stream is closed.
	idleStream = 30 * time.Second
	// ticksPerPing is how often the stream's clock ticks between two pings.
	ticksPerPing = 4
)

// stream is one gRPC stream to one member, with the watches of a session. The
// hub's lock guards it, but for rpc: only the reader receives and only the
// sender sends.
type stream struct {
	h        *hub
	rpc      pb.Watch_WatchClient
	ctx      context.Context
	cancel   context.CancelFunc
	interval time.Duration // between two pings
	fails    int           // streams before it that did not work

	out  []*pb.WatchRequest
	wake chan struct{} // something is in out

	byID     map[int64]*serverWatch
	live     int            // how many of them the server has
	awaiting []*serverWatch // asked for and not answered, in order
	order    order
	heard    driver.Instant // when the last message came
	awaited  driver.Instant // since when the first of awaiting is so
	empty    driver.Instant // since when byID is empty
	ticks    int
	worked   bool // something came
}

var (
	errSilent   = errors.New("etcd: no answer on the watch stream")
	errStale    = errors.New("etcd: the login of the watch stream has expired")
	errIdle     = errors.New("etcd: the watch stream is not needed")
	errStranger = errors.New("etcd: the answer belongs to another watch: is there a proxy between client and server?")
)

// run keeps a stream for as long as there are watches.
func (h *hub) run() {
	for fails := 0; ; fails++ {
		st, err := h.open(fails)
		if err == nil {
			err = st.serve()
		}
		if h.broken(err) {
			return
		}
		if st != nil && st.worked {
			fails = 0
		}
		d := 10 * time.Millisecond << min(fails, 6)
		if !driver.Sleep(h.s.ctx, h.s.b.clock, d/2+rand.N(d/2)) {
			return
		}
	}
}

// broken takes in the end of the stream: whoever watches is told, and watches
// anew with the next stream. It says if there is to be none.
func (h *hub) broken(err error) (done bool) {
	h.mu.Lock()
	h.st = nil
	for _, w := range h.all {
		w.reset()
		w.each(func(x *sub) { h.put(x, driver.Broken, 0) })
	}
	for _, w := range h.all {
		if len(w.subs) == 0 {
			h.drop(w)
		}
	}
	done = h.closed || len(h.all) == 0
	if done {
		h.running = false
	}
	warn := !done && !h.warned && !errors.Is(err, errStale) && !errors.Is(err, errIdle)
	h.warned = h.warned || warn
	h.mu.Unlock()
	if warn {
		h.s.cfg.Logger.Warn("etcd: watch stream broken, making a new one", "lease", h.s.ID(), "err", err)
	}
	h.drain()
	return done
}

// open makes a stream and asks for all watches on it.
func (h *hub) open(fails int) (*stream, error) {
	s := h.s
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
	// The stream lives as long as its context, so that cannot bound the opening.
	late := time.AfterFunc(s.pace.next(fails), cancel)
	rpc, err := pb.NewWatchClient(s.b.client.ActiveConnection()).
		Watch(ctx, callOptions()...)
	if !late.Stop() || err != nil {
		cancel()
		return nil, fmt.Errorf("open a watch stream: %w", driver.JoinErrors(err, ctx.Err()))
	}
	now := s.b.clock.Now()
	st := &stream{
		h: h, rpc: rpc, ctx: ctx, cancel: cancel,
		interval: max(s.cfg.Window/4, 500*time.Millisecond),
		fails:    fails,
		wake:     make(chan struct{}, 1),
		byID:     make(map[int64]*serverWatch),
		heard:    now, empty: now,
		order: order{never: s.unordered},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.st = st
	for _, w := range h.all {
		st.create(w)
	}
	return st, nil
}

// serve receives until the stream ends.
func (st *stream) serve() error {
	defer st.cancel()
	why := make(chan error, 1)
	st.h.s.wg.Go(func() { // ends with the stream's context
		why <- st.send()
		st.cancel()
	})
	for {
		resp, err := st.rpc.Recv()
		if err == nil {
			err = st.receive(resp)
			st.h.drain()
		}
		if err == nil {
			continue
		}
		select {
		case sent := <-why: // the sender knows better why it ended the stream
			err = driver.JoinErrors(sent, err)
		default:
		}
		return err
	}
}

// send sends what is queued, and looks after the stream now and then.
func (st *stream) send() error {
	tick := time.NewTicker(st.interval / ticksPerPing)
	defer tick.Stop()
	for {
		select {
		case <-st.ctx.Done():
			return nil
		case <-st.wake:
		case <-tick.C:
			if err := st.tick(); err != nil {
				return err
			}
		}
		st.h.mu.Lock()
		out := st.out
		st.out = nil
		st.h.mu.Unlock()
		for _, r := range out {
			if err := st.rpc.Send(r); err != nil {
				return nil // the reader learns the reason
			}
		}
	}
}

// queue has r sent.
func (st *stream) queue(r *pb.WatchRequest) {
	st.out = append(st.out, r)
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// create asks the server for a watch.
func (st *stream) create(w *serverWatch) {
	now := st.h.s.b.clock.Now()
	if st.live == 0 && len(st.awaiting) == 0 {
		st.heard = now // nothing was to be heard before
	}
	if len(st.awaiting) == 0 {
		st.awaited = now
	}
	st.h.lastID++
	w.id, w.asked = st.h.lastID, st.order.sent
	w.reset()
	st.byID[w.id] = w
	st.awaiting = append(st.awaiting, w)
	st.queue(w.createRequest())
	st.askOrder()
}

// forget takes a watch off the server.
func (st *stream) forget(w *serverWatch) {
	if st.byID[w.id] != w {
		return
	}
	delete(st.byID, w.id)
	if w.live {
		st.live--
	}
	if len(st.byID) == 0 {
		st.empty = st.h.s.b.clock.Now()
	}
	st.queue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
		CancelRequest: &pb.WatchCancelRequest{WatchId: w.id},
	}})
}

// askOrder asks for progress if that is due.
func (st *stream) askOrder() {
	if st.order.wantsAnswer() {
		st.ping()
	}
}

func (st *stream) ping() {
	st.order.ask()
	st.queue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
		ProgressRequest: &pb.WatchProgressRequest{},
	}})
}

// tick looks after the stream. An error means that it is to be given up.
func (st *stream) tick() error {
	h := st.h
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.s.b.clock.Now()
	h.dropIdle(now)
	if len(st.byID) == 0 {
		if now.Sub(st.empty) > idleStream {
			return errIdle
		}
		return nil
	}
	patience := h.s.pace.next(st.fails) // as of now: what is slow to make a watch is slow with all
	switch {
	case st.live > 0 && now.Sub(st.heard) > 2*st.interval:
		return errSilent
	case len(st.awaiting) > 0 && now.Sub(st.awaited) > patience && now.Sub(st.heard) > patience:
		return errSilent
	}
	st.ticks++
	full := st.ticks%ticksPerPing == 0
	// Without a watch, the server does not answer. A stream without a sure order
	// works like any other, and own entries are read, so it is kept.
	if st.live > 0 && (full || st.order.wantsTick()) {
		st.ping()
	}
	if !full {
		return nil
	}
	for _, w := range st.byID {
		if !w.live && !st.isAwaiting(w) { // refused before
			st.forget(w)
			st.create(w)
		}
	}
	if st.live > 0 && st.order.wantsCreation() {
		h.createIdle(now)
	}
	return nil
}

func (st *stream) isAwaiting(w *serverWatch) bool {
	return slices.Contains(st.awaiting, w)
}
