package pgbackend

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
//	renewals                           the goroutine renew, on the connection pulse
//	sessions without entries           the goroutine sweep
//
// The goroutines end with ctx. What has no comment of its own does not change after newSession.
type pgSession struct {
	backend *backend
	cfg     driver.Config
	log     *slog.Logger
	id      int64 // 0 for an observer
	life    layout.Life
	maxTTL  time.Duration
	secret  string
	texts   layout.Texts

	ctx    context.Context //nolint:containedctx // the session's own end; its cause is why
	cancel context.CancelCauseFunc
	done   sync.WaitGroup // the goroutines
	turn   chan struct{}  // a renewal is wanted now

	pulse *pulse
	calls *call.Sender // of calls that end with the session
	after *call.Sender // of those that are of use after its end too
	hub   *hub.Hub

	floors floors
	forget calls // of updates that are finished
}

func newSession(b *backend, p *pulse, a admission, cfg driver.Config) *pgSession {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &pgSession{
		backend: b, cfg: cfg, log: cfg.Logger, life: a.life, maxTTL: a.maxTTL, secret: a.secret, texts: b.layout.NewTexts(a.life, a.secret),
		ctx: ctx, cancel: cancel, turn: make(chan struct{}, 1), pulse: p,
		calls: b.sender(ctx, b.calls, b.hook), after: b.sender(context.Background(), b.calls, b.hook),
	}
	if !cfg.Observer {
		s.id = random()
	}
	background := b.sender(ctx, b.calls, nil)
	s.hub = hub.New(hub.Config{
		Poll: b.listen == nil,
		Dial: func(ctx context.Context, noted func(*pgconn.Notification)) (*pgx.Conn, error) {
			return dialOwn(ctx, cmp.Or(b.listen, b.config), noted, nil)
		},
		Clock: b.clock, Logger: cfg.Logger, Layout: b.layout, Texts: s.texts, Secret: a.secret,
		Tick: s.tick(), Session: s.id, Floor: s.floors.of, Over: func() { s.over(errLife) },
		End: func(ctx context.Context, id, version int64) {
			_, _ = s.end(ctx, background, id, version) // the next look shows whether it is there
		},
	})
	return s
}

// random returns a number that no other session or call has. It is above 0.
func random() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                             // it never returns an error
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1 //nolint:gosec // 63 bits
}

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
	sent, err := s.create(ctx)
	if err != nil {
		return err
	}
	s.cfg.Renewed(sent, s.cfg.TTL, s.lag())
	s.done.Go(func() { s.renew(s.ctx) }) //nolint:contextcheck // they outlive the call
	s.done.Go(func() { s.sweep(s.ctx) }) //nolint:contextcheck // they outlive the call
	return nil
}

// create makes the rows of the session, and returns when the request was sent that made or wrote
// them. It writes at each attempt, so that the commit of the last one waits for the standbys.
func (s *pgSession) create(ctx context.Context) (sent driver.Instant, err error) {
	send := s.backend.sender(s.ctx, s.pulse, s.backend.hook)
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
				return err //nolint:wrapcheck // the sender does
			}
			rows, err := r.Query()
			if err != nil {
				return err //nolint:wrapcheck // the sender does
			}
			made = rows.Next()
			rows.Close()
			return rows.Err() //nolint:wrapcheck // the sender does
		},
	}
	for {
		proof, err := s.pulse.proves(func() error {
			_, err := send.Do(ctx, request)
			return err //nolint:wrapcheck // Open does
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

// over ends the session because the store no longer has it.
func (s *pgSession) over(why error) error {
	if s.ctx.Err() == nil {
		s.cfg.Gone(fmt.Errorf("postgres: session %s: %w", s.ID(), why))
		s.finish(why)
	}
	return why
}

// finish ends everything of the session in this process.
func (s *pgSession) finish(why error) {
	s.cancel(why)
	s.hub.Stop()
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

// do sends a request of the session. A closed pool ends the session.
func (s *pgSession) do(ctx context.Context, r call.Request) (unknown bool, err error) {
	unknown, err = s.calls.Do(ctx, r)
	if errors.Is(err, driver.ErrClosed) {
		_ = s.over(err)
	}
	return unknown, err //nolint:wrapcheck // the verbs do
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
		s.pulse.close()
	}()
}

// Close implements driver.Session.
func (s *pgSession) Close(ctx context.Context) error {
	s.finish(fmt.Errorf("%w: it was closed", driver.ErrSessionOver))
	s.done.Wait()
	s.hub.Wait()
	s.pulse.close()
	if s.id == 0 {
		return nil
	}
	if _, err := s.end(ctx, s.after, s.id, 0); err != nil {
		return fmt.Errorf("postgres: close session %s: %w", s.ID(), err)
	}
	return nil
}

// end ends a session if it has a version, or in any case with 0, and reports whether it is over.
func (s *pgSession) end(ctx context.Context, send *call.Sender, id, version int64) (over bool, err error) {
	op := fault.Close
	_, err = send.Do(ctx, call.Request{
		Op: op,
		Queue: func(b *pgx.Batch, _ int) {
			b.Queue(s.texts.EndSession, id, version)
			b.Queue(s.texts.EndMember, id)
			b.Queue(s.texts.EndRest, id)
		},
		Scan: func(r pgx.BatchResults) error {
			for range 2 {
				if _, err := r.Exec(); err != nil {
					return err //nolint:wrapcheck // the sender does
				}
			}
			var told int64
			return r.QueryRow().Scan(&over, &told) //nolint:wrapcheck // the sender does
		},
	})
	return over, err //nolint:wrapcheck // the callers do
}

// period is the time between two renewals: several fit between one and the deadline.
func (s *pgSession) period() time.Duration { return s.cfg.TTL / 5 }

// lag is how long after a renewal the next one is acknowledged.
func (s *pgSession) lag() time.Duration { return s.period() * 3 / 2 }

// renew renews the session until it is over. An attempt that is not answered costs its connection,
// and the next one follows on another.
func (s *pgSession) renew(ctx context.Context) {
	timeout := min(max(s.cfg.TTL/4, 500*time.Millisecond), 5*time.Second)
	pause := driver.Backoff{Least: 20 * time.Millisecond, Most: s.period(), Spread: true}
	var outage driver.Outage
	for wait := s.period(); s.await(ctx, wait); {
		sent := s.backend.clock.Now()
		there, proof, err := s.beat(ctx, timeout)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !there:
			_ = s.gone()
			return
		case err == nil && proof:
			s.cfg.Renewed(sent, s.cfg.TTL, s.lag())
			pause.Reset()
			wait = s.period()
			if log, lasted := outage.Over(s.backend.clock.Now()); log {
				s.log.InfoContext(ctx, "postgres: the session is renewed again", "session", s.ID(), "after", lasted)
			}
		default:
			if err == nil {
				err = errUnproven
			}
			wait = pause.Next(s.backend.clock)
			if log, since := outage.Failed(s.backend.clock.Now()); log {
				s.log.WarnContext(ctx, "postgres: the session was not renewed", "session", s.ID(), "error", err.Error(), "since", since)
			}
		}
	}
}

// errUnproven is the reason of a renewal that was committed and is no proof.
var errUnproven = errors.New("the server has not waited for its standbys")

// beat sends one renewal, and reports whether the session is there and whether that is a proof.
func (s *pgSession) beat(ctx context.Context, timeout time.Duration) (there, proof bool, err error) {
	proof, err = s.pulse.proves(func() error {
		ctx, stop := driver.WithTimeout(ctx, s.backend.clock, timeout)
		defer stop()
		conn, release, err := s.pulse.Acquire(ctx)
		if err != nil {
			return err //nolint:wrapcheck // renew logs it
		}
		defer release()
		return call.Batch(ctx, conn, false, func(b *pgx.Batch) { b.Queue(s.texts.Renew, s.id) }, func(r pgx.BatchResults) error { //nolint:wrapcheck // renew logs it
			tag, err := r.Exec()
			there = tag.RowsAffected() > 0
			return err //nolint:wrapcheck // renew logs it
		})
	})
	return there, proof, err
}

// await waits for d, or until a renewal is wanted, and reports whether the session goes on.
func (s *pgSession) await(ctx context.Context, d time.Duration) bool {
	due := make(chan struct{})
	stop := s.backend.clock.AfterFunc(d, func() { close(due) })
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-due:
	case <-s.turn:
	}
	return ctx.Err() == nil
}

// sweepTime is how often the sessions of the root are looked at that nobody waits for.
const sweepTime = time.Minute

// sweep ends the sessions of the root that are over and that nobody waits for, so that a process
// that was killed leaves nothing.
func (s *pgSession) sweep(ctx context.Context) {
	var leases observed.Leases
	leases.Own(s.ID())
	send := s.backend.sender(ctx, s.backend.calls, nil)
	for driver.Sleep(ctx, s.backend.clock, sweepTime/2+driver.Jitter(s.backend.clock, sweepTime)) {
		var all []observed.Sight
		_, err := send.Do(ctx, call.Request{
			Queue: func(b *pgx.Batch, _ int) {
				b.Queue(s.texts.Sweep, s.backend.layout.Root)
				b.Queue(s.texts.SweepWatchers)
				b.Queue(s.texts.SweepDone)
			},
			Scan: func(r pgx.BatchResults) (err error) {
				all, err = hub.ScanSights(r)
				for i := 0; i < 2 && err == nil; i++ {
					_, err = r.Exec()
				}
				return err //nolint:wrapcheck // the sender does
			},
		})
		if err != nil {
			continue // the next turn tries again
		}
		now := s.backend.clock.Now()
		leases.Saw(now, all)
		for _, due := range leases.Due(now) {
			if id, ok := layout.ParseSessionID(due.ID); ok {
				_, _ = s.end(ctx, send, id, due.Version) // the next turn shows whether it is there
			}
		}
	}
}

// floors are, by stored queues, places below which a queue has no entry, and never will in this
// life: places only rise. A statement that begins there passes no row that was deleted long ago,
// which vacuum may not remove while an old snapshot needs it.
type floors struct {
	mu  sync.Mutex
	all map[string]int64
}

// mostFloors bounds the memory. Without a floor a statement is correct, and may be slower.
const mostFloors = 4096

func (f *floors) of(queue string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[queue]
}

func (f *floors) raise(queue string, place int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil || len(f.all) >= mostFloors {
		f.all = map[string]int64{}
	}
	f.all[queue] = max(f.all[queue], place)
}

// calls are calls whose marks in table done can be deleted: the next update of the session does.
type calls struct {
	mu  sync.Mutex
	all []int64
}

func (c *calls) add(call int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

func (c *calls) some() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[:min(len(c.all), 100)])
}

func (c *calls) remove(done []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(call int64) bool { return slices.Contains(done, call) })
}
