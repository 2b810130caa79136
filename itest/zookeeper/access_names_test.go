package zookeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

func TestInvalidNamesAreRefusedAndSendNothing(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	w := &wire{}
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	p.open(t, e.Endpoints()...)
	for name, text := range map[string]string{
		"": "empty", strings.Repeat("x", session.MaxName+1): fmt.Sprint(session.MaxName), "a\x00b": "NUL", "\xff": "UTF-8",
		"orders/lock-0000000001": "lock-0000000001", "x__lock__0000000001/y": "the form of an entry",
		"a-__READ__0000000001": "__READ__0000000001", "__WRIT__-000000001/0": "", "c__rlock__-2147483648": "the form of an entry",
	} {
		if text == "" {
			continue
		}
		w.forget()
		m := mutex.New(p.Session, name)
		_, queue := m.Queue(recipetest.Bounded(t))
		for what, err := range map[string]error{
			"lock": second(m.Lock(recipetest.Bounded(t))), "try": second(m.TryLock(recipetest.Bounded(t))), "queue": queue,
		} {
			require.ErrorIs(t, err, session.ErrInvalidName, "%s %q", what, name)
			assert.ErrorContains(t, err, text, "%s %q", what, name)
		}
		requests, _ := w.seen()
		assert.Empty(t, requests, "%q", name)
	}
	p.Kept(t)
}

func TestRootsAreMadeHoweverDeep(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := e.Client(t)
	deep := root + "-deep" + strings.Repeat("/d", 240)
	for _, r := range []string{root + "/not/there/yet", deep} {
		p := newClient(t, r, recipetest.CalmTTL).open(t, e.Endpoints()...)
		h := p.Lock(t, "orders/settle")
		assert.Equal(t, r+"/orders/settle/", recipetest.Refs(h)[0].Key[:len(r)+len("/orders/settle/")])
		recipetest.Unlock(t, h)
		recipetest.Unlock(t, p.Lock(t, "orders/settle"))
		awaitEmpty(t, admin, r)
		p.Kept(t)
	}
}

func TestTheWholeTreeCanBeTheRoot(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	monitor := monitorOf(t, e, root)
	name := root[1:] + "/x" // of this test alone
	whole, part := newClient(t, "/", recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	h := whole.Lock(t, name)
	r := part.Begin(recipetest.Bounded(t), "x")
	monitor.Sees(t, 2)
	r.Waits(t)
	names, err := whole.Names(recipetest.Bounded(t), root[1:]+"/")
	require.NoError(t, err)
	assert.Equal(t, []string{name}, names)
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))

	top := whole.Lock(t, root[1:]+"-top")
	recipetest.Unlock(t, top)
	_, err = mutex.New(whole.Session, "zookeeper/quota").Lock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrInvalidName)
	assert.ErrorContains(t, err, "/zookeeper belongs to the servers")
	whole.Kept(t)
	part.Kept(t)
	monitor.SeesNothingLeft(t)
}
