package zkbackend

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

func TestErrorsNameTheirCause(t *testing.T) {
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{zk.ErrNoAuth, driver.ErrDenied, "permission WRITE on /locks is missing"},
		{zk.ErrInvalidACL, driver.ErrRefused, "Options.ACL is not valid for /locks"},
		{zk.ErrNoChildrenForEphemerals, driver.ErrRefused, "/locks is an ephemeral node"},
		{conn.ErrUnimplemented, driver.ErrRefused, "older than ZooKeeper 3.5.3"},
		{conn.ErrQuota, driver.ErrRefused, "/locks: a quota is used up"},
		{conn.ErrLocalSession, driver.ErrRefused, "/locks: the servers give local sessions"},
		{zk.ErrAPIError, driver.ErrRefused, "/locks"},
		{driver.ErrSessionOver, driver.ErrSessionOver, ""},
		{driver.ErrUnavailable, driver.ErrUnavailable, ""},
		{driver.ErrGone, driver.ErrGone, ""},
	} {
		got := translate(c.err, "WRITE", "/locks")
		assert.ErrorIs(t, got, c.is)
		assert.ErrorIs(t, got, c.err)
		assert.ErrorContains(t, got, c.text)
		assert.True(t, isClassified(got))
	}
	assert.ErrorContains(t, translate(zk.ErrNoAuth, "CREATE", ""), "permission CREATE on / is missing")
}
