package zookeeper

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// minutes is how many log lines an outage that began then may have.
func minutes(began driver.Instant) int { return 1 + int(recipetest.Now().Sub(began)/time.Minute) }

// outageIsLoggedSparsely counts what a session logs while all servers are away, and
// a holder and waiters are there.
func outageIsLoggedSparsely(t *testing.T) {
	const waiters = 5
	for name, ttl := range map[string]time.Duration{"TheSessionEnds": 3 * shortTTL, "TheSessionGoesOn": time.Minute} {
		t.Run(name, func(t *testing.T) {
			e := zktest.New(t, &zktest.Options{Members: 3, MaxSession: time.Minute})
			p := newClient(t, "/fairlock", ttl).open(t, e.Endpoints()...)
			h := p.Lock(t, "x")
			ctx, cancel := context.WithTimeout(t.Context(), 2*recipetest.Patience)
			defer cancel()
			var turns sync.WaitGroup
			for range waiters {
				turns.Go(func() {
					err := mutex.New(p.Session, "x").Do(ctx, func(context.Context, *session.Hold) error { return nil })
					assert.NoError(t, err)
				})
			}
			p.Stands(t, 1+waiters)

			for i := range e.Len() {
				e.Member(i).Kill()
			}
			began := recipetest.Now()
			_, err := mutex.New(p.Session, "y").Lock(hang.Ending(t, 15*time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			recipetest.Each(e.Len(), func(i int) { assert.NoError(t, e.Member(i).Restart(recipetest.Bounded(t))) })
			if ttl == time.Minute {
				recipetest.Unlock(t, h)
			}
			turns.Wait()

			text := p.Log.String()
			opened := strings.Count(text, "cannot open a session") + strings.Count(text, "cannot reconnect")
			ended := strings.Count(text, "reachable again")
			assert.LessOrEqual(t, opened, minutes(began), text)
			assert.LessOrEqual(t, ended, 1, text)
			// The end of the session, of the hold and of each place, once.
			assert.LessOrEqual(t, strings.Count(text, "level=WARN"), opened+ended+2+waiters, text)
			if ttl == time.Minute {
				p.Kept(t)
				return
			}
			assert.Equal(t, 1, ended)
		})
	}
}

// refusedLoginIsLoggedSparsely: a login that was accepted before is refused on
// every new connection, for a while.
func refusedLoginIsLoggedSparsely(t *testing.T) {
	const ttl, attempts, authFailed = 12 * time.Second, 4, -115
	e, root := shared(t)
	proxy := proxyOf(t, e, 0)
	var refuse atomic.Bool
	w := &wire{reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
		if request.Op() == zkframe.OpLogin && refuse.Load() {
			f = refused(f, authFailed)
		}
		return f, true
	}}
	p := newClient(t, root, ttl)
	p.opts.Dial = w.dial
	p.opts.Auth = []zkbackend.Auth{zkbackend.DigestAuth("fair", "lock")}
	p.open(t, proxy.Addr())
	h := p.Lock(t, "x")
	r := p.Begin(recipetest.Bounded(t), "x")
	p.Stands(t, 2)
	most := 0 // log lines about all outages until now, except their ends
	for outages := 1; outages <= 2; outages++ {
		before := w.connections(proxy.Addr())
		refuse.Store(true)
		began := recipetest.Now()
		proxy.Reset()
		recipetest.Until(t, "attempts", func() bool { return w.connections(proxy.Addr()) >= before+attempts })
		assert.Greater(t, recipetest.Now().Sub(began), (attempts-2)*ttl/8, "the session rests between its attempts")
		refuse.Store(false)
		recipetest.Until(t, "the end of the outage in the log", func() bool { return logged(p, "connected again") >= outages })
		most += minutes(began)

		text := p.Log.String()
		assert.LessOrEqual(t, logged(p, "cannot reconnect"), most, text)
		assert.Equal(t, outages, logged(p, "connected again"), text)
		assert.LessOrEqual(t, logged(p, "level=WARN"), most+outages, text)
	}
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))
	p.Kept(t)
}
