// Package operator does to a program's session, in tests, what an operator may
// do.
package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/hang"
)

// EndSession ends the only session, as an operator may, and waits until the
// program has opened another. By then the program has noticed the end.
func EndSession(t *testing.T, client *clientv3.Client) {
	id := Session(t, client)
	ctx := hang.Context(t)
	_, err := client.Revoke(ctx, id)
	for opened := false; err == nil && !opened; time.Sleep(time.Millisecond) {
		var leases *clientv3.LeaseLeasesResponse
		leases, err = client.Leases(ctx)
		opened = err == nil && len(leases.Leases) > 0
	}
	assert.NoError(t, err, "no session was opened after it")
}

// Session returns the lease of the only session, when that has an entry. It revokes all other
// leases: a request for a lease that has no answer in time is sent again, and where the first
// one was carried out too, a lease is left that no session uses, until its TTL has passed.
func Session(t *testing.T, client *clientv3.Client) (id clientv3.LeaseID) {
	t.Helper()
	ctx := hang.Context(t)
	for id == 0 {
		leases, err := client.Leases(ctx)
		if !assert.NoError(t, err, "no session has an entry") {
			return 0
		}
		for _, l := range leases.Leases {
			// One that has expired meanwhile is no error.
			if ttl, err := client.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys()); err == nil && len(ttl.Keys) > 0 {
				id = l.ID
			}
		}
		for _, l := range leases.Leases {
			if id != 0 && l.ID != id {
				_, _ = client.Revoke(ctx, l.ID) // it may have expired
			}
		}
	}
	return id
}
