package zookeeper

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestARefusedRecordOfAGrantHurtsNothing: the record of since when a holder holds
// cannot be made, or not be deleted. The hold goes on, its release succeeds and
// grants the lock to the next waiter, and the log has no warning.
func TestARefusedRecordOfAGrantHurtsNothing(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{"zookeeper.enforceQuota": "true"}})
	for _, c := range []struct {
		name    string
		perms   int32  // on the folder of the records
		quota   string // on all records
		refused bool   // the record cannot be made
	}{
		{"NoNodeLeft", zk.PermAll, "byteHardLimit=-1;countHardLimit=1", true},
		{"NoByteLeft", zk.PermAll, "byteHardLimit=1;countHardLimit=-1", true},
		{"NoPermissionToCreate", zk.PermAll &^ zk.PermCreate, "", true},
		{"NoPermissionToDelete", zk.PermAll &^ zk.PermDelete, "", false},
		{"NoPermissionToRead", zk.PermAll &^ zk.PermRead, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, root := e.Client(t), "/"+c.name
			held := root + "/%v2/x/details"
			for _, dir := range []string{root, root + "/%v2", root + "/%v2/x"} {
				_, err := conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
			_, err := conn.Create(held, nil, 0, zk.WorldACL(c.perms))
			require.NoError(t, err)
			if c.quota != "" {
				useUp(t, conn, root+"/%v2", c.quota)
			}
			p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
			next := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
			recorded := func(p *lockClient) { // the engine has tried it
				recipetest.Until(t, "an attempt to record the grant", func() bool {
					if c.refused {
						return logged(p, "cannot write what describes an entry") > 0
					}
					_, stat, err := conn.Exists(held)
					return err == nil && stat.NumChildren > 0
				})
			}

			h := p.Lock(t, "x")
			r := next.Begin(recipetest.Bounded(t), "x")
			recorded(p)
			require.NoError(t, h.Context().Err(), "the hold goes on")
			queue, err := mutex.New(next.Session, "x").Queue(recipetest.Bounded(t))
			require.NoError(t, err)
			require.Len(t, queue, 2)
			assert.Equal(t, !c.refused && c.perms&zk.PermRead != 0, !queue[0].Granted.IsZero())
			recipetest.Unlock(t, h)
			h = r.Granted(t)
			recorded(next)
			recipetest.Unlock(t, h)

			awaitEntries(t, conn, root+"/x", 0)
			for _, p := range []*lockClient{p, next} {
				p.Kept(t)
				require.NoError(t, p.Close())
				assert.Zero(t, logged(p, "level=WARN")+logged(p, "level=ERROR"), p.Log.String())
			}
			_, stat, err := conn.Exists(held)
			require.NoError(t, err)
			assert.Zero(t, stat.NumChildren, "records after the end of their sessions")
		})
	}
}

// TestDetailsHaveTheACLOfTheUser: where the ACL is "auth", it is that of the logins of
// the user. The login that the session has made up for itself is in what ends with the
// session, and in no folder.
func TestDetailsHaveTheACLOfTheUser(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	conn := e.Client(t)
	require.NoError(t, conn.AddAuth("digest", []byte("joe:"+goodPassword)))
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Auth = []zkbackend.Auth{zkbackend.DigestAuth("joe", goodPassword)}
	p.opts.ACL = zk.AuthACL(zk.PermAll)
	p.open(t, e.Endpoints()...)
	h := p.Lock(t, "x")
	records := awaitEntries(t, conn, root+"/%v2/x/details", 1)

	acl, _, err := conn.GetACL(root + "/%v2/x/details")
	require.NoError(t, err)
	assert.Equal(t, zk.DigestACL(zk.PermAll, "joe", goodPassword), acl, "of the folder, which stays")
	acl, _, err = conn.GetACL(root + "/%v2/x/details/" + records[0])
	require.NoError(t, err)
	require.Len(t, acl, 2)
	assert.Regexp(t, "^joe:", acl[0].ID)
	assert.EqualValues(t, zk.PermAll&^(zk.PermWrite|zk.PermAdmin), acl[0].Perms)
	assert.EqualValues(t, zk.PermRead|zk.PermWrite, acl[1].Perms, "only the session may write it")
	recipetest.Unlock(t, h)
	awaitEntries(t, conn, root+"/%v2/x/details", 0)
}
