// Package memtest runs the conformance suites on membackend, in virtual time, and opens sessions on
// it for tests.
package memtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// inner is package membackend as this module's tests see it.
func inner() memory.Door[membackend.Store] { return membackend.Engine(door.Key{}) }

// Open opens a session on a network of its own. It is closed at the end of the test.
func Open(t *testing.T) (st *membackend.Store, c *membackend.Client, s *session.Session) {
	t.Helper()
	st = membackend.New()
	c = st.NewClient()
	s, err := c.Open(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return st, c, s
}

// OpenLogged opens a session on a service that is there. What it logs from Warn on goes to log; nil
// drops it. The session is closed at the end of the test.
func OpenLogged(t *testing.T, st *membackend.Store, log *bytes.Buffer) *session.Session {
	t.Helper()
	logger := slog.DiscardHandler
	if log != nil {
		logger = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})
	}
	s, err := st.Open(t.Context(), &session.Options{Logger: slog.New(logger)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// NewWith returns a service of a kind.
func NewWith(o memory.Options) *membackend.Store { return inner().New(o, nil) }

// Entries returns a queue as the service has it, in order of place.
func Entries(st *membackend.Store, name string) []driver.Entry { return inner().Entries(st, name) }

// Records returns the records of a queue as the service has them.
func Records(st *membackend.Store, name string) map[string]driver.Record {
	return inner().Records(st, name)
}

// PutForeign puts an entry of another program at the end of a queue.
func PutForeign(st *membackend.Store, name, key string, leased bool) (driver.Ref, bool) {
	return inner().PutForeign(st, name, key, leased)
}

// Overwrite replaces the data of an entry; nil writes the present data again.
func Overwrite(st *membackend.Store, name, key string, data []byte) bool {
	return inner().Overwrite(st, name, key, data)
}

// NewLife begins a new life of the service.
func NewLife(st *membackend.Store, quarantine time.Duration) { inner().NewLife(st, quarantine) }

// Kind is a kind of service that membackend can be.
type Kind struct {
	Name    string
	Options memory.Options
}

// Kinds returns the kinds on which every suite of this module runs: one like etcd, one like ZooKeeper, and
// one that uses every freedom that the contract leaves to a backend.
func Kinds() []Kind {
	zookeeper := memory.Options{First: true, Near: true, Sequences: true, Later: true}
	return []Kind{
		{Name: "Plain"},
		{Name: "LikeZooKeeper", Options: zookeeper},
		{Name: "Unkind", Options: memory.Options{
			Terse: true, Sequences: true, Later: true, Stale: 300 * time.Millisecond, LateArmed: 50 * time.Millisecond, Disorder: 1, Spurious: true, Observed: true, MaxTTL: 30 * time.Second,
		}},
	}
}

// AllKinds returns four more kinds, each of which uses one freedom to the full.
func AllKinds() []Kind {
	return append(Kinds(),
		Kind{Name: "Stale", Options: memory.Options{Stale: time.Second}},
		Kind{Name: "LateArmed", Options: memory.Options{LateArmed: time.Second}},
		Kind{Name: "Disorder", Options: memory.Options{Disorder: 1}},
		Kind{Name: "Terse", Options: memory.Options{Terse: true}},
	)
}

// Harness returns the harness of one kind, with each client's backend as seen
// through a wrapper; nil for none.
func Harness(o memory.Options, wrap func(*membackend.Store, *membackend.Client) driver.Backend) drivertest.Harness {
	try := 1
	if o.Terse { // a read shows the first entry
		try = 2
	}
	var lives []string
	if o.MaxTTL != 0 {
		lives = []string{"Promotion"}
	}
	return drivertest.Harness{
		Try:        try,
		Lives:      lives,
		TTL:        10 * time.Second,
		Virtual:    true,
		First:      o.First,
		NoOptional: o.NoOptional,
		Spurious:   o.Spurious,
		Observed:   o.Observed,
		Service:    func(*testing.T) drivertest.Service { return service{NewWith(o), wrap, o.MaxTTL} },
	}
}

// WithoutForeign returns the harness for a service on which no other program makes entries: its
// PutForeign fails the test.
func WithoutForeign(h drivertest.Harness) drivertest.Harness {
	service := h.Service
	h.NoForeign, h.Service = true, func(t *testing.T) drivertest.Service { return ours{service(t)} }
	return h
}

type ours struct{ drivertest.Service }

// PutForeign implements drivertest.Service.
func (ours) PutForeign(t *testing.T, _ string, _ bool) driver.Ref {
	t.Helper()
	require.Fail(t, "Harness.NoForeign: another program's entry")
	return driver.Ref{}
}

// service is a Store as a drivertest.Service.
type service struct {
	*membackend.Store
	wrap   func(*membackend.Store, *membackend.Client) driver.Backend
	maxTTL time.Duration
}

// Client implements drivertest.Service.
func (s service) Client(*testing.T) drivertest.Client {
	c := s.NewClient()
	if s.wrap == nil {
		return client{c, c.Backend()}
	}
	return client{c, s.wrap(s.Store, c)}
}

// Expire implements drivertest.Service.
func (s service) Expire(t *testing.T, session string) {
	t.Helper()
	require.True(t, s.Store.Expire(session), "session %s", session)
}

// Delete implements drivertest.Service.
func (s service) Delete(t *testing.T, ref driver.Ref) {
	t.Helper()
	require.True(t, s.Store.Delete(ref.Queue, ref.Key), "entry %v", ref)
}

// PutForeign implements drivertest.Service.
func (s service) PutForeign(t *testing.T, queue string, leased bool) driver.Ref {
	t.Helper()
	ref, ok := PutForeign(s.Store, queue, fmt.Sprint("other/", len(Entries(s.Store, queue))), leased)
	require.True(t, ok)
	return ref
}

// Overwrite implements drivertest.Service.
func (s service) Overwrite(t *testing.T, ref driver.Ref, data []byte) {
	t.Helper()
	require.True(t, Overwrite(s.Store, ref.Queue, ref.Key, data))
}

// Count implements drivertest.Service.
func (s service) Count(_ *testing.T, queue string) int { return len(Entries(s.Store, queue)) }

// NewLife implements drivertest.Lives.
func (s service) NewLife(*testing.T, string) { NewLife(s.Store, s.maxTTL) }

// client is a client whose backend may be wrapped.
type client struct {
	*membackend.Client
	backend driver.Backend
}

// Backend implements drivertest.Client.
func (c client) Backend() driver.Backend { return c.backend }

// CutRepliesTo implements drivertest.Client. In memory there are no connections to make.
func (c client) CutRepliesTo(fault.Op) { c.Cut(fault.Replies) }

// Late implements drivertest.Client. In memory every request is answered at once, or never.
func (c client) Late() int { return 0 }

// Watches is a backend that counts the watches of another, over all sessions.
type Watches struct {
	driver.Backend
	live, events atomic.Int64
}

// CountWatches returns a backend that counts the watches of b.
func CountWatches(b driver.Backend) *Watches { return &Watches{Backend: b} }

// Live returns how many watches were begun and not cancelled.
func (w *Watches) Live() int64 { return w.live.Load() }

// Events returns how many events the watches have reported, without Armed.
func (w *Watches) Events() int64 { return w.events.Load() }

// Open implements driver.Backend.
func (w *Watches) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := w.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return countedSession{s, w}, nil
}

type countedSession struct {
	driver.Session
	all *Watches
}

// Watch implements driver.Session.
func (s countedSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	s.all.live.Add(1)
	stop := s.Session.Watch(t, func(ev driver.Event) {
		if ev.Kind != driver.Armed {
			s.all.events.Add(1)
		}
		f(ev)
	})
	return func() {
		s.all.live.Add(-1)
		stop()
	}
}

// FailReads returns a backend whose reads of a queue return the error that f returns for it, if
// any.
func FailReads(b driver.Backend, f func(queue string) error) driver.Backend { return failing{b, f} }

type failing struct {
	driver.Backend
	fail func(queue string) error
}

// Open implements driver.Backend.
func (b failing) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return failingSession{s, b.fail}, nil
}

type failingSession struct {
	driver.Session
	fail func(queue string) error
}

// Read implements driver.Session.
func (s failingSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	if err := s.fail(req.Queue); err != nil {
		return driver.View{}, err
	}
	return s.Session.Read(ctx, req)
}

// HideEntries returns a backend whose reads show the entries for which f returns true as those that
// the login may not read.
func HideEntries(b driver.Backend, f func(ref driver.Ref) bool) driver.Backend { return hiding{b, f} }

type hiding struct {
	driver.Backend
	hide func(ref driver.Ref) bool
}

// Open implements driver.Backend.
func (b hiding) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return hidingSession{s, b.hide}, nil
}

type hidingSession struct {
	driver.Session
	hide func(ref driver.Ref) bool
}

// Read implements driver.Session.
func (s hidingSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	v, err := s.Session.Read(ctx, req)
	v.Entries = slices.Clone(v.Entries)
	for i, e := range v.Entries {
		if s.hide(e.Ref) {
			v.Entries[i] = driver.Entry{Ref: e.Ref, Foreign: true, Unreadable: true}
		}
	}
	return v, err
}
