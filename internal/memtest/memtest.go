// Package memtest runs the conformance suites on membackend, in virtual time.
package memtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/drivertest"
)

// inner is package membackend as this module's tests see it.
func inner() memory.Door[membackend.Store] { return membackend.Engine(door.Key{}) }

// NewWith returns a service of a kind.
func NewWith(o memory.Options) *membackend.Store { return inner().NewWith(o) }

// Entries returns a line as the service has it, in order of place.
func Entries(st *membackend.Store, name string) []driver.Entry { return inner().Entries(st, name) }

// PutForeign puts an entry of another program at the end of a line.
func PutForeign(st *membackend.Store, name, key string, leased bool) (driver.Ref, bool) {
	return inner().PutForeign(st, name, key, leased)
}

// Overwrite gives an entry another value.
func Overwrite(st *membackend.Store, name, key string, value []byte) bool {
	return inner().Overwrite(st, name, key, value)
}

// Touch writes an entry's value again, unchanged.
func Touch(st *membackend.Store, name, key string) bool { return inner().Touch(st, name, key) }

// Kind is a kind of service that membackend can be.
type Kind struct {
	Name    string
	Options memory.Options
}

// Kinds returns those on which every suite runs.
func Kinds() []Kind {
	return []Kind{
		{Name: "Plain", Options: memory.Options{Ends: true}},
		{Name: "Tells", Options: memory.Options{Tells: true, Ends: true}},
		{Name: "LikeZooKeeper", Options: memory.Options{Tells: true, NoRevs: true, Near: true, Moves: true}},
	}
}

// Lagging returns a kind whose reads are as old as they may be.
func Lagging() Kind {
	return Kind{Name: "Lagging", Options: memory.Options{Ends: true, Stale: true}}
}

// AllKinds returns two kinds more, for what lies above the driver: cases of the
// driver's contract would have to request newer reads at every step. On one of the two,
// reads are old; on the other, watches on own entries are never armed, so every grant
// after a wait needs a read.
func AllKinds() []Kind {
	return append(Kinds(), Lagging(), Kind{Name: "Unarmed", Options: memory.Options{Ends: true, OwnUnarmed: true}})
}

// Harness returns the harness of one kind, with each client's backend as seen
// through a wrapper; nil for none.
func Harness(o memory.Options, wrap func(*membackend.Store, *membackend.Client) driver.Backend) drivertest.Harness {
	return drivertest.Harness{
		TTL:     10 * time.Second,
		Virtual: true,
		Service: func(*testing.T) drivertest.Service { return service{NewWith(o), wrap} },
	}
}

// service says of a Store's acts that they have failed.
type service struct {
	*membackend.Store
	wrap func(*membackend.Store, *membackend.Client) driver.Backend
}

func (s service) Client(*testing.T) drivertest.Client {
	c := s.NewClient()
	if s.wrap == nil {
		return c
	}
	return wrapped{c, s.wrap(s.Store, c)}
}

func (s service) Expire(t *testing.T, session string) {
	require.True(t, s.Store.Expire(session), "session %s", session)
}

func (s service) Delete(t *testing.T, ref driver.Ref) {
	require.True(t, s.Store.Delete(ref.Line, ref.Key), "entry %v", ref)
}

func (s service) PutForeign(t *testing.T, line string, leased bool) driver.Ref {
	ref, ok := PutForeign(s.Store, line, fmt.Sprint("other/", len(Entries(s.Store, line))), leased)
	require.True(t, ok)
	return ref
}

func (s service) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	if value == nil {
		require.True(t, Touch(s.Store, ref.Line, ref.Key))
		return
	}
	require.True(t, Overwrite(s.Store, ref.Line, ref.Key, value))
}

func (s service) Count(_ *testing.T, line string) int { return len(Entries(s.Store, line)) }

// wrapped is a client whose backend is seen through a wrapper.
type wrapped struct {
	*membackend.Client
	backend driver.Backend
}

func (w wrapped) Backend() driver.Backend { return w.backend }

// Watches is a backend that counts the watches of another, over all sessions.
type Watches struct {
	driver.Backend
	live, told atomic.Int64
}

// CountWatches returns a backend that counts the watches of b.
func CountWatches(b driver.Backend) *Watches { return &Watches{Backend: b} }

// Live returns how many were begun and not cancelled.
func (w *Watches) Live() int64 { return w.live.Load() }

// Told returns how many events they have reported; Armed does not count.
func (w *Watches) Told() int64 { return w.told.Load() }

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
func (s countedSession) Watch(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	s.all.live.Add(1)
	stop := s.Session.Watch(req, func(ev driver.Event) {
		if ev.Kind != driver.Armed {
			s.all.told.Add(1)
		}
		f(ev)
	})
	return func() {
		s.all.live.Add(-1)
		stop()
	}
}
