package zkbackend

import (
	"crypto/tls"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A connection with a seal has one login more than the user's. A folder for that login alone
// would be useless to all other sessions.
func TestAuthMeansTheUsersLogins(t *testing.T) {
	acl := append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	b, err := newBackend([]string{"a"}, &Options{ACL: acl, Auth: []Auth{DigestAuth("u", "p"), DigestAuth("v", "q")}})
	require.NoError(t, err)
	assert.Equal(t, append(append(zk.DigestACL(zk.PermAll, "u", "p"), zk.DigestACL(zk.PermAll, "v", "q")...), zk.WorldACL(zk.PermRead)...), b.sealedACL)
	assert.Equal(t, acl, b.opts.ACL, "without a seal the servers decide what it stands for")

	for _, o := range []*Options{
		{ACL: acl}, {ACL: acl, TLS: &tls.Config{}, Auth: []Auth{DigestAuth("u", "p")}}, //nolint:gosec // not used
		{ACL: acl, Auth: []Auth{{Scheme: "sasl"}}},
	} {
		got, err := newBackend([]string{"a"}, o)
		require.NoError(t, err)
		assert.Equal(t, acl, got.sealedACL, "what else it stands for only the server knows")
		assert.True(t, got.unsealed.Load())
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
