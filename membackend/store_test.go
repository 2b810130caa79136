package membackend_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

const ttl = 10 * time.Second

// inner is what the tests of this module see of the package.
func inner() memory.Door[membackend.Store] { return membackend.Engine(door.Key{}) }

// entries returns a queue as the service has it.
func entries(st *membackend.Store, name string) []driver.Entry { return inner().Entries(st, name) }

// list keeps what callbacks report.
type list[T any] struct {
	mu  sync.Mutex
	all []T
}

func (l *list[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, v)
}

// get returns what was reported, once all goroutines are blocked.
func (l *list[T]) get() []T {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T{}, l.all...)
}

// reports is what a session has reported.
type reports struct {
	sent list[driver.Instant]
	ttls list[time.Duration]
	gone list[error]
}

// open opens a session at driver level and closes it with the test.
func open(t *testing.T, c *membackend.Client) (driver.Session, *reports) {
	t.Helper()
	r := &reports{}
	s, err := c.Backend().Open(t.Context(), driver.Config{
		TTL:    ttl,
		Margin: func(ttl time.Duration) time.Duration { return ttl / 10 },
		Renewed: func(sent driver.Instant, ttl, _ time.Duration) {
			r.sent.add(sent)
			r.ttls.add(ttl)
		},
		Gone:   r.gone.add,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Heal()
		c.Resume()
		assert.NoError(t, s.Close(context.Background()))
	})
	return s, r
}

// serve returns a new service of a kind, a client of it, and the client's session.
func serve(t *testing.T, o memory.Options) (*membackend.Store, *membackend.Client, driver.Session, *reports) {
	t.Helper()
	st := inner().New(o, nil)
	c := st.NewClient()
	s, r := open(t, c)
	return st, c, s, r
}

func join(t *testing.T, s driver.Session, name string) driver.Entry {
	t.Helper()
	j, err := s.Join(t.Context(), driver.JoinRequest{Queue: name, Mode: driver.Weighted, Weight: 1})
	require.NoError(t, err)
	return j[0].Entry
}

// watch watches a target until the test ends.
func watch(t *testing.T, s driver.Session, target driver.Target) *list[driver.Event] {
	t.Helper()
	l := &list[driver.Event]{}
	t.Cleanup(s.Watch(target, l.add))
	synctest.Wait()
	return l
}

func TestKeysAreUsedAgainAndPlacesAreNot(t *testing.T) {
	for _, o := range []memory.Options{{}, {Sequences: true}} {
		synctest.Test(t, func(t *testing.T) {
			_, _, s, _ := serve(t, o)
			join(t, s, "other")
			a := join(t, s, "jobs")
			left, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: a.Ref})
			require.NoError(t, err)
			require.Equal(t, []driver.Left{driver.Deleted}, left)
			b := join(t, s, "jobs")

			assert.Equal(t, "jobs#m1.0", a.Key)
			assert.Equal(t, a.Key, b.Key)
			assert.Greater(t, b.Place, a.Place)
			assert.Greater(t, b.Token, a.Token)
			assert.Equal(t, o.Sequences, a.Place != a.Token)
		})
	}
}

func TestOthersActAtTheServiceAndReportWhetherTheyDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		e := join(t, s, "jobs")
		ref, ok := inner().PutForeign(st, "jobs", "foreign", false)
		require.True(t, ok)
		_, ok = inner().PutForeign(st, "jobs", "foreign", true)
		assert.False(t, ok, "the key is taken")
		assert.True(t, inner().Overwrite(st, "jobs", e.Key, []byte("broken")))
		assert.True(t, inner().Overwrite(st, "jobs", e.Key, nil))
		all := entries(st, "jobs")
		require.Len(t, all, 2)
		assert.Equal(t, e.Ref, all[0].Ref)
		assert.Equal(t, "broken", string(all[0].Data))
		assert.Equal(t, ref, all[1].Ref)
		assert.True(t, all[1].Foreign && all[1].Unleased)

		assert.True(t, st.Delete("jobs", "foreign"))
		assert.False(t, st.Delete("jobs", "foreign"))
		assert.False(t, inner().Overwrite(st, "jobs", "foreign", nil))
		assert.False(t, inner().Overwrite(st, "elsewhere", e.Key, nil))
		assert.True(t, st.Expire(s.ID()))
		assert.False(t, st.Expire(s.ID()))
		assert.Empty(t, entries(st, "jobs"))
	})
}

// A writer and its reader have one place, and a view has both or none of them.
func TestAReaderHasThePlaceOfItsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{Near: true})
		writer, _ := inner().PutForeign(st, "jobs", "k", true)
		e := join(t, s, "jobs")
		for _, key := range []string{"j", "l"} { // before the writer's, and behind it
			reader, ok := inner().PutReader(st, writer, key)
			require.True(t, ok)
			v, err := s.Read(t.Context(), driver.ReadRequest{Queue: "jobs", Upto: e.Place, Nearest: 1})
			require.NoError(t, err)
			all := entries(st, "jobs")
			assert.Len(t, all, 3)
			assert.Equal(t, key < "k", all[0].Ref == reader)
			assert.Len(t, v.Entries, 3)
			assert.True(t, v.Complete)
			assert.True(t, st.Delete("jobs", key))
		}
		assert.True(t, st.Delete("jobs", "k"))
		_, ok := inner().PutReader(st, writer, "m")
		assert.False(t, ok, "the writer is gone")
		last, _ := inner().PutReader(st, driver.Ref{Queue: "jobs"}, "m")
		assert.Greater(t, last.Place, e.Place)
	})
}

func TestSessionsAreNumberedAndListedWithoutObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		for range 11 {
			open(t, c)
		}
		o, err := c.Backend().Open(t.Context(), driver.Config{Observer: true, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		assert.Equal(t, "o12", o.ID())
		st.Expire("m5")
		assert.Equal(t, []string{"m1", "m2", "m3", "m4", "m6", "m7", "m8", "m9", "m10", "m11"}, st.Sessions())
		_, err = o.Join(t.Context(), driver.JoinRequest{Queue: "jobs"})
		require.ErrorIs(t, err, driver.ErrRefused)
		require.NoError(t, o.Close(t.Context()))
	})
}

func TestTTLIsRaisedToTheLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		ttls := &list[time.Duration]{}
		b := st.Backend()
		s, err := b.Open(t.Context(), driver.Config{
			TTL:     time.Millisecond,
			Margin:  b.Info().Margin,
			Renewed: func(_ driver.Instant, ttl, _ time.Duration) { ttls.add(ttl) },
			Logger:  slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		assert.Equal(t, membackend.MinTTL, ttls.get()[0])
		time.Sleep(time.Second)
		assert.Len(t, st.Sessions(), 1, "it is renewed")
		require.NoError(t, s.Close(t.Context()))
		assert.Empty(t, st.Sessions())
	})
}

func TestEndOfASessionEndsItsEntriesAndBoundRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, a, _ := serve(t, memory.Options{})
		b, _ := open(t, c)
		e := join(t, a, "jobs")
		_, err := a.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Ops: []driver.Op{
			{Record: "slot/0", Value: []byte("a"), Bound: true},
			{Record: "slot/1", Value: []byte("a"), Bound: true},
			{Record: "limit", Value: []byte("3")},
		}})
		require.NoError(t, err)
		assert.EqualValues(t, 3, st.Limit("jobs"))
		_, err = b.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Ops: []driver.Op{
			{Record: "slot/1", If: driver.Equal([]byte("a")), Value: []byte("b"), Bound: true},
		}})
		require.NoError(t, err)
		gone, slot := watch(t, b, e.Target()), watch(t, b, driver.Target{Kind: driver.OfRecord, Queue: "jobs", Record: "slot/0"})
		require.True(t, st.Expire(a.ID()))

		assert.Equal(t, driver.Event{Kind: driver.Gone}, gone.get()[1])
		assert.Equal(t, driver.Event{Kind: driver.Changed}, slot.get()[1])
		assert.Empty(t, entries(st, "jobs"))
		left := inner().Records(st, "jobs")
		assert.Len(t, left, 2)
		assert.Equal(t, "b", string(left["slot/1"].Value), "it was bound to another session")
		_, err = a.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Ops: []driver.Op{{Record: "slot/0", Value: []byte("a"), Bound: true}}})
		require.ErrorIs(t, err, driver.ErrSessionOver)
	})
}

func TestSlowNetworkDoesNotLoseTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		c.DelayRequests(ttl / 3)
		c.Delay(ttl / 3) // more than the time between renewals
		s, r := open(t, c)
		time.Sleep(10 * ttl)
		assert.Empty(t, r.gone.get())
		assert.Equal(t, []string{s.ID()}, st.Sessions())
		all := r.sent.get()
		assert.Less(t, c.Backend().Info().Clock.Now().Sub(all[len(all)-1]), ttl)
		c.Heal()
	})
}
