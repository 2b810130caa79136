package membackend_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

const ttl = 10 * time.Second

// reports is what a session says of itself.
type reports struct {
	mu     sync.Mutex
	sent   []driver.Instant
	ttl    time.Duration
	losses int
}

func (r *reports) proof(sent driver.Instant, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent, r.ttl = append(r.sent, sent), ttl
}

func (r *reports) lost(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses++
}

func (r *reports) proofs() []driver.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

func (r *reports) given() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ttl
}

func (r *reports) gone() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.losses
}

// open opens a session at driver level and closes it with the test.
func open(t *testing.T, c *membackend.Client) (driver.Session, *reports) {
	t.Helper()
	r := &reports{}
	s, err := c.Backend().Open(t.Context(), driver.Config{
		TTL:    ttl,
		Window: ttl * 9 / 10,
		Proof:  r.proof,
		Gone:   r.lost,
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

// serve returns a new service, a client of it, and the client's session.
func serve(t *testing.T, o memory.Options) (*membackend.Store, *membackend.Client, driver.Session, *reports) {
	t.Helper()
	st := memtest.NewWith(o)
	c := st.NewClient()
	s, r := open(t, c)
	return st, c, s, r
}

func join(t *testing.T, s driver.Session, name string) driver.Entry {
	t.Helper()
	j, err := s.Join(t.Context(), driver.JoinRequest{Line: name})
	require.NoError(t, err)
	return j.Entry
}

func TestKeysAreUsedAgainAndPlacesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, _ := serve(t, memory.Options{})
		a := join(t, s, "jobs")
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: a.Ref})
		require.NoError(t, err)
		b := join(t, s, "jobs")

		assert.Equal(t, "jobs#m1.0", a.Key)
		assert.Equal(t, a.Key, b.Key)
		assert.Greater(t, b.Place, a.Place)
	})
}

func TestOthersActAtTheServiceAndSayWhetherTheyDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		e := join(t, s, "jobs")
		ref, ok := memtest.PutForeign(st, "jobs", "someone", false)
		require.True(t, ok)
		_, ok = memtest.PutForeign(st, "jobs", "someone", true)
		assert.False(t, ok, "the key is taken")
		assert.True(t, memtest.Touch(st, "jobs", e.Key))
		assert.True(t, memtest.Overwrite(st, "jobs", e.Key, []byte("broken")))
		line := memtest.Entries(st, "jobs")
		require.Len(t, line, 2)
		assert.Equal(t, e.Ref, line[0].Ref)
		assert.Equal(t, ref, line[1].Ref)
		assert.True(t, line[1].Foreign && line[1].Unleased)

		assert.True(t, st.Delete("jobs", "someone"))
		assert.False(t, st.Delete("jobs", "someone"))
		assert.False(t, memtest.Touch(st, "jobs", "someone"))
		assert.False(t, memtest.Overwrite(st, "elsewhere", e.Key, nil))
		assert.True(t, st.Expire(s.ID()))
		assert.False(t, st.Expire(s.ID()))
		assert.Empty(t, memtest.Entries(st, "jobs"))
	})
}

func TestSessionsAreNumberedAndListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		for range 11 {
			open(t, c)
		}
		st.Expire("m5")
		assert.Equal(t, []string{"m1", "m2", "m3", "m4", "m6", "m7", "m8", "m9", "m10", "m11"}, st.Sessions())
	})
}

func TestTTLIsRaisedToTheLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		r := &reports{}
		s, err := st.Backend().Open(t.Context(), driver.Config{
			TTL:    time.Millisecond,
			Proof:  r.proof,
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		assert.Equal(t, membackend.MinTTL, r.given())
		time.Sleep(time.Second)
		assert.Len(t, st.Sessions(), 1, "it is renewed")
		require.NoError(t, s.Close(t.Context()))
		assert.Empty(t, st.Sessions())
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
		synctest.Wait()
		assert.Equal(t, []string{s.ID()}, st.Sessions())
		assert.Zero(t, r.gone())
		newest := r.proofs()[len(r.proofs())-1]
		assert.Less(t, c.Backend().Clock().Now().Sub(newest), ttl)
		c.Heal()
	})
}
