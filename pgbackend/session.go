package pgbackend

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/hub"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// pgSession is one row in table session with the entries of that session, or an observer, which
// has neither.
//
//	Join, Leave, Update, Read, Names   a request each, which calls sends
//	Watch                              hub, on a connection of its own
//	renewals                           renewals, on the connection own
//	sessions that no client waits for  sweep
//
// The goroutines end with ctx. What has no comment of its own does not change after newSession.
type pgSession struct {
	backend *backend
	cfg     driver.Config
	log     *slog.Logger
	id      int64 // 0 for an observer
	life    layout.Life
	since   int64
	maxTTL  time.Duration
	secret  string
	texts   layout.Texts

	ctx    context.Context //nolint:containedctx // the session's own end; its cause is why
	cancel context.CancelCauseFunc
	done   sync.WaitGroup // the goroutines
	turn   chan struct{}  // a renewal is wanted now

	own   *ownConn
	calls *call.Sender // of calls that end with the session
	after *call.Sender // of those that are of use after its end too
	hub   *hub.Hub
	ends  *ends

	floors floors
	forget calls // of updates that are finished
}

func newSession(b *backend, p *ownConn, a admission, cfg driver.Config) *pgSession {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &pgSession{
		backend: b, cfg: cfg, log: cfg.Logger, life: a.life, since: a.since, maxTTL: a.maxTTL, secret: a.secret, texts: b.layout.NewTexts(a.life, a.secret),
		ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1), own: p,
		calls: b.sender(ctx, b.calls, b.hook), after: b.sender(context.Background(), b.calls, b.hook),
	}
	if !cfg.Observer {
		s.id = random()
	}
	background := b.sender(ctx, b.calls, nil)
	s.ends = &ends{s: s, send: background}
	s.hub = hub.New(hub.Config{
		Poll: b.listen == nil,
		Dial: func(ctx context.Context, noted func(*pgconn.Notification)) (*pgx.Conn, error) {
			return b.dialOwn(ctx, cmp.Or(b.listen, b.config), noted, nil)
		},
		Notify: func(ctx context.Context, channel string) error {
			_, err := background.Do(ctx, call.Request{
				Queue: func(b *pgx.Batch, _ int) { b.Queue("select pg_notify($1, '')", channel) },
				Scan:  func(r pgx.BatchResults) error { return exec(r, 1) },
			})
			return err
		},
		Clock: b.clock, Logger: cfg.Logger, Layout: b.layout, Texts: s.texts, Secret: a.secret,
		Tick: s.tick(), Session: s.id, Owns: b.owns, Floor: s.floors.of, Over: func() { _ = s.over(errLife) },
		End: s.ends.end,
	})
	return s
}

// random returns a number that no other session or call has. It is above 0.
func random() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                             // it never returns an error
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1 //nolint:gosec // 63 bits
}

// exec reads the answers to n statements that return nothing of interest.
func exec(r pgx.BatchResults, n int) error {
	for range n {
		if _, err := r.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// observerTick is how often a client looks at the sessions that it waits for, at most.
const observerTick = time.Second

// tick is how often the sessions that are waited for are looked at. A renewal that was made just
// after a look is seen by the next one; so an end comes later than the TTL by a tick at most.
func (s *pgSession) tick() time.Duration {
	if s.cfg.Observer {
		return observerTick
	}
	return min(max(s.cfg.TTL/8, 100*time.Millisecond), observerTick)
}

// errLife is why a session is over whose server has another life.
var errLife = fmt.Errorf("%w: the server has failed over, or its data was replaced", driver.ErrSessionOver)

// begin makes the session, unless it is an observer, and starts the goroutines.
func (s *pgSession) begin(ctx context.Context) error {
	if s.cfg.Observer {
		return nil
	}
	if s.cfg.TTL > s.maxTTL {
		return fmt.Errorf("%w: the TTL %s is above the greatest that the tables admit, %s: run \"fairlock schema postgres --apply --max-ttl %s\" first, or choose a shorter one",
			driver.ErrRefused, s.cfg.TTL, s.maxTTL, s.cfg.TTL)
	}
	s.backend.begun(s.ID())
	sent, err := s.create(ctx)
	if err != nil {
		return err
	}
	s.cfg.Renewed(sent, s.cfg.TTL, lag(s.cfg.TTL))
	s.done.Go(func() { (&renewals{s}).run(s.ctx) }) //nolint:contextcheck // they outlive the call
	s.done.Go(func() { sweep(s.ctx, s) })           //nolint:contextcheck // they outlive the call
	return nil
}

// create makes the rows of the session, and returns when the request was sent that made or wrote
// them. It writes at each attempt, so that the commit of the last one waits for the standbys.
func (s *pgSession) create(ctx context.Context) (sent driver.Instant, err error) {
	send := s.backend.sender(s.ctx, s.own, s.backend.hook) //nolint:contextcheck // the session's
	made := false
	request := call.Request{
		Op: fault.Open,
		Queue: func(b *pgx.Batch, _ int) {
			sent = s.backend.clock.Now()
			b.Queue(s.texts.Member, s.id)
			b.Queue(s.texts.Open, s.id, s.backend.layout.Root, s.cfg.TTL.Milliseconds())
		},
		Scan: func(r pgx.BatchResults) error {
			if _, err := r.Exec(); err != nil {
				return err
			}
			rows, err := r.Query()
			if err != nil {
				return err
			}
			made = rows.Next()
			rows.Close()
			return rows.Err()
		},
	}
	for {
		proof, err := s.own.proves(func() error {
			_, err := send.Do(ctx, request)
			return err
		})
		if err != nil {
			return 0, err
		}
		if !made {
			return 0, errLife
		}
		if proof {
			return sent, nil
		}
	}
}

// ID implements driver.Session: as table session has it, in hexadecimal.
func (s *pgSession) ID() string { return layout.SessionID(s.id) }

// Since implements driver.Session: the place at which the last bless has begun.
func (s *pgSession) Since() int64 { return s.since }

// over ends the session because the store no longer has it.
func (s *pgSession) over(why error) error {
	if s.ctx.Err() == nil {
		s.cfg.Gone(fmt.Errorf("postgres: session %s: %w", s.ID(), why))
		s.finish(why)
	}
	return why
}

// finish ends everything of the session in this process, and sends nothing.
func (s *pgSession) finish(why error) {
	s.cancel(why)
	s.hub.Stop()
	s.backend.ended(s.ID())
}

// gone returns the error of a call that has found no fence of the session.
func (s *pgSession) gone() error {
	return s.over(fmt.Errorf("%w: the database has no such session", driver.ErrSessionOver))
}

// verdict returns why an answer did nothing, or nil if it did.
func (s *pgSession) verdict(alive, member bool) error {
	switch {
	case !alive:
		return s.over(errLife)
	case !member:
		return s.gone()
	}
	return nil
}

// fence adds the statement that locks the fence of the session and these keys of queues, which rise.
func (s *pgSession) fence(b *pgx.Batch, keys []int64) {
	if len(keys) == 1 {
		b.Queue(s.texts.FenceOne, s.id, keys[0])
		return
	}
	b.Queue(s.texts.Fence, s.id, keys)
}

// do sends a request of the session. A closed pool ends the session.
func (s *pgSession) do(ctx context.Context, r call.Request) (unknown bool, err error) {
	unknown, err = s.calls.Do(ctx, r)
	if errors.Is(err, driver.ErrClosed) {
		_ = s.over(err)
	}
	return unknown, err
}

// Join implements driver.Session.
func (s *pgSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	joined, err := (&join{s: s, reqs: reqs}).do(ctx)
	switch {
	case err == nil:
		return joined, nil
	case len(reqs) == 1:
		return nil, fmt.Errorf("postgres: join %q: %w", reqs[0].Queue, err)
	}
	return nil, fmt.Errorf("postgres: join %d queues: %w", len(reqs), err)
}

// Leave implements driver.Session.
func (s *pgSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	left, err := (&leave{s: s, reqs: reqs}).do(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: leave %q: %w", reqs[0].Ref.Queue, err)
	}
	return left, nil
}

// Read implements driver.Session. All answers come from the primary, after every commit that it
// has answered, so each is fresh.
func (s *pgSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := (&read{s: s, req: &req}).do(ctx)
	if err != nil {
		return driver.View{}, fmt.Errorf("postgres: read %q: %w", req.Queue, err)
	}
	return v, nil
}

// Update implements driver.Session.
func (s *pgSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	results, err := (&update{s: s, req: &req}).do(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: update %q: %w", req.Queue, err)
	}
	return results, nil
}

// Names implements driver.Session.
func (s *pgSession) Names(ctx context.Context, prefix string) ([]string, error) {
	all, err := names(ctx, s, prefix)
	if err != nil {
		return nil, fmt.Errorf("postgres: names with prefix %q: %w", prefix, err)
	}
	return all, nil
}

// Watch implements driver.Session.
func (s *pgSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return s.hub.Watch(t, f)
}

// Renew implements driver.Session.
func (s *pgSession) Renew() {
	select {
	case s.turn <- struct{}{}:
	default:
	}
}

// Abandon implements driver.Session. The rows stay until another client, or a later session of
// this process, has seen them unchanged for a TTL.
func (s *pgSession) Abandon() {
	s.finish(fmt.Errorf("%w: it was abandoned", driver.ErrSessionOver))
	go func() {
		s.done.Wait()
		s.own.close()
	}()
}

// Close implements driver.Session.
func (s *pgSession) Close(ctx context.Context) error {
	s.finish(fmt.Errorf("%w: it was closed", driver.ErrSessionOver))
	s.done.Wait()
	s.hub.Wait()
	s.own.close() //nolint:contextcheck // it bounds itself
	if s.id == 0 {
		return nil
	}
	if err := s.end(ctx, s.after, observed.Sight{ID: s.ID()}); err != nil {
		return fmt.Errorf("postgres: close session %s: %w", s.ID(), err)
	}
	return nil
}

// errKept is why a session is there after the request that ends it.
var errKept = fmt.Errorf("%w: the database deleted nothing: is there a row-level policy, or a trigger, on its tables?", driver.ErrDenied)

// end ends a session if it has the version of a sight, or any one if that is 0.
func (s *pgSession) end(ctx context.Context, send *call.Sender, seen observed.Sight) error {
	id, _ := layout.ParseSessionID(seen.ID) // a store has no other ones
	kept := false
	_, err := send.Do(ctx, call.Request{
		Op: fault.Close,
		Queue: func(b *pgx.Batch, _ int) {
			b.Queue(s.texts.EndSession, id, seen.Version)
			b.Queue(s.texts.EndMember, id)
			b.Queue(s.texts.EndRest, id)
			b.Queue(s.texts.EndKept, id, seen.Version)
		},
		Scan: func(r pgx.BatchResults) error {
			if err := exec(r, 3); err != nil {
				return err
			}
			tag, err := r.Exec()
			kept = tag.RowsAffected() > 0
			return err
		},
	})
	if err == nil && kept {
		err = errKept
	}
	return err
}
