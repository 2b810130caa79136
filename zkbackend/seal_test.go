package zkbackend

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// A connection with a seal has one login more than the user's. A folder for that login alone
// would be useless to all other sessions.
func TestAuthMeansTheUsersLogins(t *testing.T) {
	acl := append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	b, err := newBackend([]string{"a"}, &Options{ACL: acl, Auth: []Auth{DigestAuth("u", "p"), DigestAuth("v", "q")}})
	require.NoError(t, err)
	assert.Equal(t, append(append(zk.DigestACL(zk.PermAll, "u", "p"), zk.DigestACL(zk.PermAll, "v", "q")...), zk.WorldACL(zk.PermRead)...), b.sealedACL(b.secrets.logins()))
	assert.Equal(t, acl, b.opts.ACL, "without a seal the servers decide what it stands for")

	for _, o := range []*Options{
		{ACL: acl}, {ACL: acl, TLS: &tls.Config{}, Auth: []Auth{DigestAuth("u", "p")}}, //nolint:gosec // not used
		{ACL: acl, Auth: []Auth{{Scheme: "sasl"}}},
	} {
		got, err := newBackend([]string{"a"}, o)
		require.NoError(t, err)
		assert.Equal(t, acl, got.sealedACL(got.secrets.logins()), "what else it stands for only the server knows")
		assert.Equal(t, sealUseless, got.seals())
	}
}

func TestASealTakesAwayThePermissionToWrite(t *testing.T) {
	l := newSeal()
	acl := l.entryACL(append(zk.DigestACL(zk.PermAll, "u", "p"), zk.WorldACL(zk.PermWrite)...))

	require.Len(t, acl, 2)
	assert.EqualValues(t, zk.PermRead|zk.PermCreate|zk.PermDelete, acl[0].Perms)
	assert.EqualValues(t, zk.PermRead|zk.PermWrite, acl[1].Perms)
	assert.Equal(t, "digest", acl[1].Scheme)
	assert.NotEqual(t, newSeal().acl, acl[1], "every session has its own")
	assert.NotContains(t, acl[1].ID, string(l.auth.Credentials)[30:], "the password is not in it")
}

// Before the first lock the root is not there, and often no client may make nodes in "/".
func TestASealIsTestedInTheNearestFolderThatIsThere(t *testing.T) {
	var paths []string
	s := &server{answer: func(r request) []byte {
		switch folder, _ := split(r.path()); folder {
		case "/team":
			paths = append(paths, folder)
			if len(paths) == 1 { // only the seal may write
				return refuse(r, 1, noAuth)
			}
			stat := make([]byte, 68)
			return reply(r, 0, 1, byte(0), 0, r.path(), 5, byte(0), 0, stat, 2, byte(0), 0, -1, byte(1), -1)
		case "":
			return refuse(r, 0, noAuth)
		}
		return refuse(r, 0, noNode)
	}}
	synctest.Test(t, func(t *testing.T) {
		b := s.backend(t, "/team/prod/locks")
		c, err := b.Open(t.Context(), s.config(b))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()

		assert.NotNil(t, c.(*zkSession).seal) //nolint:forcetypeassert // of this package
		assert.Len(t, paths, 2)
		assert.Equal(t, sealUseful, b.seals())
	})
}

// The first session finds out whether a seal is useful. The network is cut off at that moment, also
// for what would close the session.
func TestOpenReturnsWithItsContextWhileItTestsTheSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(request) []byte { return nil }}
		b := s.backend(t, "/r")
		dials := 0
		b.opts.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials == 1 {
				return s.dial(ctx, network, addr)
			}
			unheard, _ := net.Pipe()
			return unheard, nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		began := time.Now()
		_, err := b.Open(ctx, s.config(b))

		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		assert.Len(t, s.asked, 1)
	})
}
