package zookeeper

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestWhatServersLimit asks a server for what cannot be held, and leaves no session
// behind.
func TestWhatServersLimit(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{MaxSession: 3 * time.Second})
	before := sessions(t, e)
	checkRefusals(t, []refusal{
		{
			name: "heartbeats too far apart", servers: e.Endpoints(), is: session.ErrRefused, most: shortly,
			text: []string{"session timeout of 3s", "20s was requested", "tickTime is 2s", "Options.TickTime"},
			edit: func(o *zkbackend.Options) { o.Proof, o.TickTime = zkbackend.ProofQuorum, 0 },
		},
		{
			name: "a margin as long as what is given", servers: e.Endpoints(), is: session.ErrRefused, most: shortly,
			text: []string{"session timeout of 3s", "12s was requested", "margin of", "use the TTL that they grant"},
			edit: func(o *zkbackend.Options) { o.Session.TTL, o.Session.Margin = 12*time.Second, 9*time.Second },
		},
	})
	recipetest.Until(t, "no session left", func() bool { return sessions(t, e) <= before })
}

// sessions returns how many sessions the server has.
func sessions(t testing.TB, e *zktest.Ensemble) (n int) {
	t.Helper()
	text, err := e.Member(0).Command(recipetest.Bounded(t), "mntr")
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if _, err := fmt.Sscanf(line, "zk_global_sessions %d", &n); err == nil {
			return n
		}
	}
	require.Fail(t, "no count of sessions", text)
	return 0
}

// TestAFolderWithFourMegabytesOfChildrenIsNoTrouble fills a folder with that many
// bytes of foreign children.
func TestAFolderWithFourMegabytesOfChildrenIsNoTrouble(t *testing.T) {
	t.Parallel()
	const count, long = 1050, 4000
	e, root := shared(t)
	admin := e.Client(t)
	one, two := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	recipetest.Unlock(t, one.Lock(t, "x"))
	for i := 0; i < count; {
		var ops []any
		for range 150 { // a server takes a megabyte at once
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/x/%0*d-", root, long, i), Acl: zk.WorldACL(zk.PermAll)})
			i++
		}
		_, err := admin.Multi(ops...)
		require.NoError(t, err)
	}
	monitor := monitorOf(t, e, root)
	elsewhere := one.Lock(t, "y")
	begin := recipetest.Now()
	h := one.Lock(t, "x")
	r, other := two.Begin(recipetest.Bounded(t), "x"), one.Begin(recipetest.Bounded(t), "y")
	monitor.Sees(t, 4)
	entries, err := mutex.New(one.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.ErrorIs(t, second(mutex.New(two.Session, "x").TryLock(recipetest.Bounded(t))), session.ErrNotAcquired)
	recipetest.Unlock(t, elsewhere)
	recipetest.Unlock(t, other.Granted(t))
	released := recipetest.Now()
	recipetest.Unlock(t, h)
	second := r.Granted(t)

	t.Logf("all of it in %s, the hand-off in %s", recipetest.Now().Sub(begin), r.At.Sub(released))
	assert.Greater(t, second.Token(), h.Token())
	recipetest.Unlock(t, second)
	one.Kept(t)
	two.Kept(t)
	monitor.SeesNothingLeft(t)
}

// TestTheLargestSessionCanEnd: the transaction that ends a session names all its nodes. A server
// that has written one that it cannot read does not start again, and its followers have left it.
func TestTheLargestSessionCanEnd(t *testing.T) {
	t.Parallel()
	const most = 2 * 0xfffff // bytes: jute.maxbuffer and its extrasize
	e := zktest.New(t, &zktest.Options{Members: 3})
	conn := e.Client(t)
	other := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	kinds := map[string]string{"the longest names": strings.Repeat("%", session.MaxName-1)}
	if tier.All() {
		kinds["the most entries"] = strings.Repeat("n", 49)
	}
	for what, name := range kinds {
		o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: "/fairlock"}, e.Endpoints()...)
		var reqs []driver.JoinRequest // several in one transaction, to save time
		for i := range 8 {
			reqs = append(reqs, driver.JoinRequest{Queue: name + strconv.Itoa(i), Detail: []byte("{}")})
		}
		entries := 0
		for ; entries < 20_000; entries += len(reqs) {
			_, err := o.Join(recipetest.Bounded(t), reqs...)
			if errors.Is(err, driver.ErrRefused) {
				break
			}
			require.NoError(t, err, what)
		}
		size := 0
		for _, req := range reqs {
			escaped := strings.ReplaceAll(req.Queue, "%", "%25")
			for _, dir := range []string{"/fairlock/" + escaped, "/fairlock/%v2/" + escaped + "/details"} {
				for _, node := range children(t, conn, dir) {
					size += len("size") + len(dir+"/"+node)
				}
			}
		}
		t.Logf("%s: %d entries, nodes whose paths have %d bytes", what, entries, size)
		assert.Less(t, size, most, what)
		assert.Greater(t, size, most/2, what)

		require.NoError(t, o.Close(recipetest.Bounded(t)), what)
		recipetest.Unlock(t, other.Lock(t, reqs[0].Queue))
	}
	require.NoError(t, e.Member(0).Restart(recipetest.Bounded(t)), "it reads the transactions from its log")
	recipetest.Unlock(t, other.Lock(t, "y"))
	other.Kept(t)
}
