package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/hub"
	"github.com/fairlock/fairlock/redisbackend/internal/link"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// redisSession is one session: a member of {root}:ses and its key {root}:s:<id>.
//
//	goroutine   owner   ends
//	renewals    begin   with ctx
//	hub.run     hub     with hub.Stop
type redisSession struct {
	backend *backend
	cfg     driver.Config
	log     *slog.Logger
	id      string
	life    string      // in which it was opened; no script does anything for it in another one
	since   int64       // the number at which that life began
	scripts *script.Set // of the server on which it was opened
	line    *link.Line  // of the renewals

	ctx    context.Context //nolint:containedctx // the session's own end
	cancel context.CancelCauseFunc

	calls *call.Sender // of calls
	after *call.Sender // of what is to be done also after the end
	hub   *hub.Hub
	slots slots
	turn  chan struct{}  // has a value when a renewal is wanted now
	sight chan struct{}  // has a value when renewals are to come more often
	done  sync.WaitGroup // renewals
}

func newSession(b *backend, line *link.Line, a admission, cfg driver.Config) *redisSession {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &redisSession{
		backend: b, cfg: cfg, log: cfg.Logger, life: a.life, since: a.since, scripts: b.set(), line: line, ctx: ctx, cancel: cancel,
		turn: make(chan struct{}, 1), sight: make(chan struct{}, 1),
		calls: b.sender(ctx, b.calls, b.turns, b.hook),
		after: b.sender(context.Background(), b.calls, b.turns, b.hook),
	}
	s.id = script.NewSession(cfg.TTL)
	channel, tick := s.id, time.Duration(0)
	if cfg.Observer {
		s.id, channel, tick = script.NewObserver(), "", lookTime
	}
	background := b.sender(ctx, b.calls, b.turns, nil)
	for _, send := range []*call.Sender{s.calls, s.after, background} {
		send.Elsewhere = s.elsewhere
	}
	s.hub = hub.New(hub.Config{
		Dial: func(ctx context.Context, notice func(channel, payload string)) (hub.Feed, error) {
			n, err := b.calls.Node(ctx)
			if err != nil {
				return nil, call.Explain(err)
			}
			f, err := n.Subscribe(ctx, notice)
			if err != nil {
				return nil, err //nolint:wrapcheck // the hub logs it
			}
			return &feed{Subscriber: f, sharded: s.scripts.Kind.Cluster}, nil
		},
		Look: func(ctx context.Context, args script.Args) (script.Reply, error) {
			text := &s.scripts.See
			if !cfg.Observer {
				text, args = &s.scripts.Watch, append(script.Args{s.id}, args...)
			}
			a, err := s.run(ctx, background, fault.Watch, text, func() script.Args { return args })
			return a.Reply, err
		},
		End: func(ctx context.Context, due observed.Sight) error {
			return s.end(ctx, background, due.ID, fmt.Sprint(due.Version))
		},
		Session: channel, Owns: b.owns, Clock: b.clock, Logger: cfg.Logger, Channels: script.Channels(b.prefix, b.database), Tick: tick,
		Waits: func() {
			select {
			case s.sight <- struct{}{}:
			default:
			}
		},
	})
	return s
}

// errLife is why a session is over whose server has another life.
var errLife = fmt.Errorf("%w: Redis was restarted, has failed over, or its data was deleted", driver.ErrSessionOver)

// errNoSession is why a session is over that was ended by another client.
var errNoSession = fmt.Errorf("%w: Redis has no such session", driver.ErrSessionOver)

// elsewhere decides about a call that was answered in another life. Renewals have a line of their own, and one
// of them shows whether the session is over. Until then the call is repeated, perhaps on another server: where
// two act as the master, the lines may be with different ones.
func (s *redisSession) elsewhere() bool {
	if s.cfg.Observer || s.ctx.Err() != nil {
		return false
	}
	s.Renew()
	return true
}

// begin makes the session, unless it is an observer, and starts the renewals.
func (s *redisSession) begin(ctx context.Context) error {
	if s.cfg.Observer {
		return nil
	}
	s.backend.begun(s.id)
	r := &renewals{s: s, send: s.backend.sender(s.ctx, s.line, call.NewTurns(), s.backend.hook)} //nolint:contextcheck // the session's
	if err := r.open(ctx); err != nil {
		return err
	}
	s.hub.Start()                      //nolint:contextcheck // it outlives the call
	s.done.Go(func() { r.run(s.ctx) }) //nolint:contextcheck // they outlive the call
	return nil
}

// ID implements driver.Session: a member of {root}:ses.
func (s *redisSession) ID() string { return s.id }

// Since implements driver.Session: the number at which the last bless has begun.
func (s *redisSession) Since() int64 { return s.since }

// over ends the session because Redis no longer has it.
func (s *redisSession) over(why error) error {
	if s.ctx.Err() == nil {
		s.cfg.Gone(fmt.Errorf("redis: session %s: %w", s.id, why))
		s.finish(why)
	}
	return why
}

// finish ends everything of the session in this process.
func (s *redisSession) finish(why error) {
	s.cancel(why)
	s.hub.Stop()
	s.backend.ended(s.id)
	s.line.Close()
}

// run runs a script in the life of the session, and ends the session if the answer shows that it is over.
func (s *redisSession) run(ctx context.Context, send *call.Sender, op fault.Op, text *script.Script, args func() script.Args) (call.Answer, error) {
	a, err := send.Do(ctx, call.Request{
		Op: op, Script: text,
		Args: func(int) script.Args { return append(script.Args{s.life}, args()...) },
	})
	if errors.Is(err, driver.ErrClosed) {
		_ = s.over(err)
	}
	if err != nil {
		return a, err //nolint:wrapcheck // the verbs do
	}
	switch a.Text(0) {
	case script.Life:
		return a, s.over(errLife)
	case script.Over:
		return a, s.over(errNoSession)
	}
	return a, nil
}

// write runs a script that changes something, once. t is ended unless the error is that of a call that may
// still be carried out: then it is the caller's.
func (s *redisSession) write(ctx context.Context, op fault.Op, text *script.Script, t turn, args script.Args) (call.Answer, error) {
	var given []turn
	a, err := s.run(ctx, s.calls, op, text, func() script.Args {
		var head script.Args
		head, given = s.slots.args(s.id, t)
		return append(head, args...)
	})
	switch {
	case err != nil && a.Unknown:
		return a, err
	case err == nil && a.Text(0) == script.Old:
		a.Unknown = true
		return a, fmt.Errorf("%w: the call was given up", driver.ErrUnavailable) // no other call knows its number
	case err == nil:
		s.slots.known(given)
	}
	s.slots.answered(t)
	return a, err
}

// end ends a session if it has a version, or any one if that is "".
func (s *redisSession) end(ctx context.Context, send *call.Sender, id, version string) error {
	_, err := send.Do(ctx, call.Request{
		Op: fault.Close, Script: &s.scripts.Finish,
		Args: func(int) script.Args { return script.Args{s.life, id, version} },
	})
	return err //nolint:wrapcheck // the callers do
}

// Join implements driver.Session.
func (s *redisSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	joined, err := s.join(ctx, reqs)
	switch {
	case err == nil:
		return joined, nil
	case len(reqs) == 1:
		return nil, fmt.Errorf("redis: join %q: %w", reqs[0].Queue, err)
	}
	return nil, fmt.Errorf("redis: join %d queues: %w", len(reqs), err)
}

// Leave implements driver.Session.
func (s *redisSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	left, err := s.leave(ctx, reqs)
	if err != nil {
		return nil, fmt.Errorf("redis: leave %q: %w", reqs[0].Ref.Queue, err)
	}
	return left, nil
}

// Read implements driver.Session. All answers come from the master, so each is fresh.
func (s *redisSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.read(ctx, req)
	if err != nil {
		return driver.View{}, fmt.Errorf("redis: read %q: %w", req.Queue, err)
	}
	return v, nil
}

// Update implements driver.Session.
func (s *redisSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	results, err := s.update(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("redis: update %q: %w", req.Queue, err)
	}
	return results, nil
}

// Names implements driver.Session.
func (s *redisSession) Names(ctx context.Context, prefix string) ([]string, error) {
	a, err := s.run(ctx, s.calls, fault.Names, &s.scripts.Names, func() script.Args { return script.Args{prefix} })
	if err != nil {
		return nil, fmt.Errorf("redis: names with prefix %q: %w", prefix, err)
	}
	list := a.List(1)
	all := make([]string, len(list))
	for i := range list {
		all[i] = list.Text(i)
	}
	return all, nil
}

// Watch implements driver.Session.
func (s *redisSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return s.hub.Watch(t, f)
}

// Renew implements driver.Session.
func (s *redisSession) Renew() {
	select {
	case s.turn <- struct{}{}:
	default:
	}
}

// Abandon implements driver.Session. What the session has stays until another client, or a later session of
// this process, has seen it unchanged for a TTL.
func (s *redisSession) Abandon() {
	s.finish(fmt.Errorf("%w: it was abandoned", driver.ErrSessionOver))
}

// Close implements driver.Session.
func (s *redisSession) Close(ctx context.Context) error {
	s.finish(fmt.Errorf("%w: it was closed", driver.ErrSessionOver))
	s.done.Wait()
	s.hub.Wait()
	if err := s.end(ctx, s.after, s.id, ""); err != nil {
		return fmt.Errorf("redis: close session %s: %w", s.id, err)
	}
	return nil
}

// feed is the connection for notices.
type feed struct {
	*link.Subscriber
	sharded bool
}

func (f *feed) Lost() <-chan error { return f.Broken }

func (f *feed) Subscribe(ctx context.Context, channels []string) error {
	if f.sharded {
		return f.Do(ctx, f.B().Ssubscribe().Channel(channels...).Build()).Error() //nolint:wrapcheck // the hub does
	}
	return f.Do(ctx, f.B().Subscribe().Channel(channels...).Build()).Error() //nolint:wrapcheck // the hub does
}

func (f *feed) Unsubscribe(ctx context.Context, channels []string) error {
	if f.sharded {
		return f.Do(ctx, f.B().Sunsubscribe().Channel(channels...).Build()).Error() //nolint:wrapcheck // the hub does
	}
	return f.Do(ctx, f.B().Unsubscribe().Channel(channels...).Build()).Error() //nolint:wrapcheck // the hub does
}
