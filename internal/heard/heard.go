// Package heard is what tests of programs hear of them: it lets them do something
// when a program says something, or wait until it has.
package heard

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Output is what a program has written. When Text is written for the first time,
// Then is called, and the program's write ends after it.
type Output struct {
	bytes.Buffer
	Text string
	Then func()
	once sync.Once
}

// Write is an [io.Writer]'s.
func (o *Output) Write(b []byte) (int, error) {
	if strings.Contains(string(b), o.Text) {
		defer o.once.Do(o.Then)
	}
	return o.Buffer.Write(b)
}

// EndSession ends the only session that there is, as an operator may, and waits
// until the program has opened another: by then it knows.
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
