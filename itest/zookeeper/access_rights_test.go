package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

const (
	goodPassword  = "corr3ct-horse"
	badPassword   = "wr0ng-horse"
	adminPassword = "adm1n-horse"
)

// checkSecrets fails the test if an error or the log of a client shows a password.
func checkSecrets(t testing.TB, p *lockClient, errs ...error) {
	t.Helper()
	for _, password := range []string{goodPassword, badPassword} {
		assert.NotContains(t, p.Log.String(), password)
		for _, err := range errs {
			if err != nil {
				assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), password)
			}
		}
	}
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", p.opts.Auth, p.opts.Auth, p.opts.Auth), goodPassword)
}

// asAdmin returns a connection with all permissions.
func asAdmin(t testing.TB, e *zktest.Ensemble) *zk.Conn {
	t.Helper()
	admin := e.Client(t)
	require.NoError(t, admin.AddAuth("digest", []byte("admin:"+adminPassword)))
	return admin
}

// private makes a node on which its owner has all permissions, and the user "worker" those
// given here.
func private(t testing.TB, admin *zk.Conn, path string, perms int32) {
	t.Helper()
	acl := append(zk.DigestACL(zk.PermAll, "admin", adminPassword), zk.DigestACL(perms, "worker", goodPassword)...)
	_, err := admin.Create(path, nil, 0, acl)
	require.NoError(t, err)
}

// as makes a client log in as worker.
func as(p *lockClient, password string) *lockClient {
	p.opts.Auth = []zkbackend.Auth{zkbackend.DigestAuth("worker", password)}
	p.opts.ACL = append(zk.DigestACL(zk.PermAll, "admin", adminPassword), zk.DigestACL(zk.PermAll, "worker", goodPassword)...)
	return p
}

func TestAPermissionThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	const all = zk.PermRead | zk.PermWrite | zk.PermCreate | zk.PermDelete
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, all)
	for _, c := range []struct {
		name    string
		perms   int32 // on the folder
		text    string
		crowded bool // another entry is in the queue
	}{
		{"create", all &^ zk.PermCreate, "permission CREATE on " + root + "/create is missing", false},
		{"write", all &^ zk.PermWrite, "permission WRITE on " + root + "/write is missing", false},
		{"read", all &^ zk.PermRead, "permission READ on " + root + "/read is missing", true},
		{"nothing", 0, "on " + root + "/nothing is missing", true},
	} {
		p := as(newClient(t, root, recipetest.CalmTTL), goodPassword).open(t, e.Endpoints()...)
		dir := root + "/" + c.name
		private(t, admin, dir, c.perms)
		entries := 0
		if c.crowded {
			_, err := admin.Create(dir+"/_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			entries = 1
		}
		m := mutex.New(p.Session, c.name)
		watch := metronome.Begin(t)
		for what, err := range both.Calls(recipetest.Bounded(t), p.Session, c.name) {
			if what == "resize" || what == "acquire" || what == "robust" || what == "all" || what == "ask" {
				continue // that lies elsewhere
			}
			if what == "try" && c.crowded && c.perms&zk.PermRead != 0 {
				continue
			}
			require.ErrorIs(t, err, session.ErrDenied, "%s, %s", c.name, what)
			assert.ErrorContains(t, err, fmt.Sprintf("%q", c.name), what)
			if what != "try" || c.name == "read" {
				assert.ErrorContains(t, err, c.text, what)
			}
			checkSecrets(t, p, err)
			t.Logf("%s, %s: %v", c.name, what, err)
		}
		_, err := m.Queue(recipetest.Bounded(t))
		if c.perms&zk.PermRead == 0 {
			require.ErrorIs(t, err, session.ErrDenied)
			assert.ErrorContains(t, err, "permission READ on "+dir)
		}
		assert.Less(t, watch.Passed(), recipetest.Patience, "none goes on until its context ends")
		recipetest.Until(t, "nothing left of "+c.name, func() bool { return len(entriesBelow(t, admin, dir)) == entries })
		p.Kept(t)
	}
}

// TestWithoutTheDeletePermissionNothingIsJoined: the session could not release, and would wait behind
// its own entry.
func TestWithoutTheDeletePermissionNothingIsJoined(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermAll)
	const all = zk.PermRead | zk.PermWrite | zk.PermCreate
	private(t, admin, root+"/config", all) // made by an operator
	p := as(newClient(t, root, recipetest.CalmTTL), goodPassword)
	p.opts.ACL = append(zk.DigestACL(zk.PermAll, "admin", adminPassword), zk.DigestACL(all, "worker", goodPassword)...)
	p.open(t, e.Endpoints()...)
	for _, queue := range []string{"config", "new"} { // the session makes the second
		calls := joinsOf(p.Session, queue)
		for name, call := range calls {
			err := second(call(recipetest.Bounded(t)))
			require.ErrorIs(t, err, session.ErrDenied, name)
			require.ErrorContains(t, err, "permission DELETE on "+root+"/"+queue, name)
		}
		assert.Empty(t, children(t, admin, root+"/"+queue))
	}
	p.Kept(t)
}

// TestWithoutTheDeletePermissionNoLockStaysHeld: it is withdrawn from a queue in use. That shows only
// after the join, when the entry is there and cannot be deleted. It ends with the session.
func TestWithoutTheDeletePermissionNoLockStaysHeld(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermAll)
	private(t, admin, root+"/x", zk.PermRead|zk.PermWrite|zk.PermCreate|zk.PermDelete)
	permit := func(perms int32) {
		acl := append(zk.DigestACL(zk.PermAll, "admin", adminPassword), zk.DigestACL(perms, "worker", goodPassword)...)
		_, err := admin.SetACL(root+"/x", acl, -1)
		require.NoError(t, err)
	}
	unlock := func() error {
		permit(zk.PermAll)
		p := as(newClient(t, root, recipetest.CalmTTL), goodPassword)
		var err error
		p.Session, err = zkbackend.Open(recipetest.Bounded(t), e.Endpoints(), &p.opts)
		require.NoError(t, err)
		recipetest.Unlock(t, p.Lock(t, "x"))
		permit(zk.PermRead | zk.PermWrite | zk.PermCreate)
		h := p.Lock(t, "x")
		begin := time.Now()
		err = h.Unlock()
		t.Logf("%s: %v", time.Since(begin).Round(time.Millisecond), err)
		require.Error(t, context.Cause(h.Context()))
		require.NoError(t, p.Close())
		assert.Empty(t, entriesBelow(t, admin, root))
		return err
	}
	var err error
	recipetest.Until(t, "an answer in time", func() bool {
		err = unlock()
		return !errors.Is(err, session.ErrReleasePending) || driver.Incurable(err)
	})
	assert.ErrorIs(t, err, session.ErrDenied)
	assert.ErrorContains(t, err, "permission DELETE on "+root+"/x is missing")
}

func TestAFolderThatCannotBeMadeIsNamed(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermRead)
	for _, c := range []struct{ root, text string }{
		{root, "permission CREATE on " + root + " is missing"},
		{root + "/below/it", "permission CREATE on " + root + " is missing"},
	} {
		p := as(newClient(t, c.root, recipetest.CalmTTL), goodPassword).open(t, e.Endpoints()...)
		err := second(mutex.New(p.Session, "orders/settle").Lock(recipetest.Bounded(t)))
		t.Log(err)
		require.ErrorIs(t, err, session.ErrDenied)
		assert.ErrorContains(t, err, c.text)
		assert.ErrorContains(t, err, `"orders/settle"`)
		checkSecrets(t, p, err)
		p.Kept(t)
	}
	assert.Empty(t, children(t, admin, root))
	zookeeperNode := newClient(t, "/zookeeper/config/locks", recipetest.CalmTTL).open(t, e.Endpoints()...)
	err := second(mutex.New(zookeeperNode.Session, "x").Lock(recipetest.Bounded(t)))
	require.ErrorIs(t, err, session.ErrDenied)
	assert.ErrorContains(t, err, "permission CREATE on /zookeeper/config is missing")
}

func TestTheLeastPermissionsSuffice(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermCreate)
	open := func() *lockClient {
		p := as(newClient(t, root, recipetest.CalmTTL), goodPassword)
		p.opts.ACL = append(zk.DigestACL(zk.PermAll, "admin", adminPassword),
			zk.DigestACL(zk.PermRead|zk.PermWrite|zk.PermCreate|zk.PermDelete, "worker", goodPassword)...)
		return p.open(t, e.Endpoints()...)
	}
	one, two := open(), open()
	both.Use(t, &one.Client, &two.Client, "orders/")
	_, err := one.Names(recipetest.Bounded(t), "")
	require.ErrorIs(t, err, session.ErrDenied, "the root cannot be listed")
	assert.ErrorContains(t, err, "permission READ on "+root)
	for _, p := range []*lockClient{one, two} {
		p.Kept(t)
		checkSecrets(t, p, err)
	}
	awaitEmpty(t, admin, root)
}

func TestAnotherLoginIsDenied(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermAll)
	// Another password is another user, without permissions: the login does not fail, and
	// no request is repeated.
	w := &wire{}
	wrong := as(newClient(t, root, recipetest.CalmTTL), badPassword)
	wrong.opts.Dial = w.dial
	wrong.open(t, e.Endpoints()...)
	watch := metronome.Begin(t)
	err := second(mutex.New(wrong.Session, "x").Lock(recipetest.Bounded(t)))
	t.Log(err)
	require.ErrorIs(t, err, session.ErrDenied)
	assert.ErrorContains(t, err, "permission CREATE on "+root+" is missing")
	assert.Less(t, watch.Passed(), recipetest.Patience, "it does not go on until its context ends")
	assert.Equal(t, 1, w.connections(e.Endpoints()[0]))
	wrong.Kept(t)
	checkSecrets(t, wrong, err)

	right := as(newClient(t, root, recipetest.CalmTTL), goodPassword).open(t, e.Endpoints()...)
	recipetest.Unlock(t, right.Lock(t, "x"))

	checkRefusals(t, []refusal{{
		name: "an unknown scheme", servers: e.Endpoints(), is: session.ErrDenied, most: shortly,
		text: []string{`"nosuch"`, "refused"},
		edit: func(o *zkbackend.Options) {
			o.Auth = []zkbackend.Auth{{Scheme: "nosuch", Credentials: []byte(goodPassword)}}
		},
	}})
	for name, acl := range map[string][]zk.ACL{
		"an unknown scheme":    {{Perms: zk.PermAll, Scheme: "nosuch", ID: "x"}},
		"auth without a login": zk.AuthACL(zk.PermAll),
	} {
		p := newClient(t, root+"-other", recipetest.CalmTTL)
		p.opts.ACL = acl
		p.open(t, e.Endpoints()...)
		err := second(mutex.New(p.Session, "x").Lock(recipetest.Bounded(t)))
		t.Log(err)
		require.ErrorIs(t, err, session.ErrRefused, name)
		assert.ErrorContains(t, err, "Options.ACL is not valid", name)
		assert.ErrorContains(t, err, root+"-other", name)
		p.Kept(t)
	}
	there, _, err := admin.Exists(root + "-other")
	require.NoError(t, err)
	assert.False(t, there)
}

// TestAnUnreadableEntryIsWaitedFor: the first entry is one that only its owner may read.
func TestAnUnreadableEntryIsWaitedFor(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	monitor := monitorOf(t, e, root)
	p := newClient(t, root, recipetest.EventTTL).open(t, e.Endpoints()...)
	recipetest.Unlock(t, p.Lock(t, "x"))
	key, err := admin.Create(root+"/x/_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-", nil,
		zk.FlagSequence|zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "admin", adminPassword))
	require.NoError(t, err)
	r := p.Begin(recipetest.Bounded(t), "x")
	monitor.Sees(t, 3)
	entries, err := mutex.New(p.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	assert.Equal(t, key, entries[0].Key)
	assert.Equal(t, ownerOf(t, admin, key), entries[0].Session)
	r.Waits(t)
	require.NoError(t, admin.Delete(key, -1))

	recipetest.Unlock(t, r.Granted(t)) // by an event
	p.Kept(t)
	monitor.SeesNothingLeft(t)
}
