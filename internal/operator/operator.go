// Package operator does to a program's session, in tests, what an operator may
// do.
package operator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// EndSession ends the only session, as an operator may, and waits until the
// program has opened another. By then the program has noticed the end.
func EndSession(t *testing.T, client *clientv3.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	leases, err := client.Leases(ctx)
	if !assert.NoError(t, err) || !assert.Len(t, leases.Leases, 1) {
		return
	}
	_, err = client.Revoke(ctx, leases.Leases[0].ID)
	assert.NoError(t, err)
	for err == nil {
		leases, err = client.Leases(ctx)
		if err == nil && len(leases.Leases) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	assert.NoError(t, err, "no session was opened after it")
}
