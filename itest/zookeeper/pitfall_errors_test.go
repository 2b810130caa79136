package zookeeper

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// refusalsAreReported: what the client library has no name for is an answer all the
// same, and asking again would go on for ever.
func refusalsAreReported(t *testing.T) {
	const forever = 1 << 30
	for name, c := range map[string]struct {
		op, code int32
		times    int64
		want     error
		text     string
	}{
		"a code from the future": {zkframe.OpMulti, -999, forever, session.ErrRefused, "-999"},
		"an old server":          {zkframe.OpCreateContainer, -6, forever, session.ErrRefused, "3.5.3"},
		"a used up quota":        {zkframe.OpMulti, -125, forever, session.ErrRefused, "quota"},
		"a wrong ACL":            {zkframe.OpMulti, -114, forever, session.ErrRefused, "ACL"},
		"no permission":          {zkframe.OpMulti, -102, forever, session.ErrDenied, "CREATE"},
		"a server under load":    {zkframe.OpMulti, -127, 3, nil, ""},
		"a server in trouble":    {zkframe.OpMulti, -1, 1, nil, ""},
	} {
		e, root := shared(t)
		var hits, on atomic.Int64
		w := &wire{
			swap: func(f zkframe.Frame) zkframe.Frame {
				if on.Load() == 1 && !proves(f) && f.Op() == c.op && (c.op != zkframe.OpMulti || joins(f)) && hits.Add(1) <= c.times {
					return harmless(f)
				}
				return f
			},
			reply: func(request, f zkframe.Frame) (zkframe.Frame, bool) {
				if on.Load() == 1 && request.Op() == c.op && hits.Load() <= c.times && (c.op != zkframe.OpMulti || joins(request)) {
					return refused(f, c.code), true
				}
				return f, true
			},
		}
		p := newClient(t, root, recipetest.CalmTTL)
		p.opts.Dial = w.dial
		p.open(t, e.Endpoints()...)
		if c.op == zkframe.OpMulti {
			recipetest.Unlock(t, p.Lock(t, name)) // makes the folder
		}
		w.forget()
		on.Store(1)
		h, err := mutex.New(p.Session, name).Lock(recipetest.Bounded(t))

		assert.ErrorIs(t, err, c.want, name)
		if c.want != nil {
			assert.ErrorContains(t, err, c.text, name)
			assert.LessOrEqual(t, hits.Load(), int64(4), "%s: requests", name)
			t.Log(err)
			continue
		}
		assert.Equal(t, c.times+1, hits.Load(), "%s: requests", name)
		recipetest.Unlock(t, h)
	}
}

// realQuota is the refusal of a server whose operator has set a quota.
func realQuota(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{"zookeeper.enforceQuota": "true"}})
	conn := e.Client(t)
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	held := p.Lock(t, "x")
	const quota = "/zookeeper/quota/fairlock"
	for _, node := range []struct{ path, data string }{
		{quota, ""},
		{quota + "/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3"},
		{quota + "/zookeeper_stats", "count=3,bytes=0"},
	} {
		_, err := conn.Create(node.path, []byte(node.data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err, node.path)
	}
	m := mutex.New(p.Session, "x")
	for what, call := range map[string]func(context.Context) error{
		"an entry": func(ctx context.Context) error { return second(m.Lock(ctx)) },
		"a folder": func(ctx context.Context) error { return second(mutex.New(p.Session, "y").Lock(ctx)) },
		"a try":    func(ctx context.Context) error { return second(mutex.New(p.Session, "y").TryLock(ctx)) },
	} {
		err := call(recipetest.Bounded(t))
		require.ErrorIs(t, err, session.ErrRefused, what)
		assert.ErrorContains(t, err, "quota", what)
		t.Log(err)
	}
	recipetest.Unlock(t, held)
	recipetest.Unlock(t, p.Lock(t, "x")) // there is room again
	p.Kept(t)
}
