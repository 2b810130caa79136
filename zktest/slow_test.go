package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
)

// A machine with much to do answers every request late.
func TestJournalWaitsLongerForASlowMember(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() { // ends with l
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.ReadFull(nc, make([]byte, len("srvr")))
				<-time.After(2 * answerWithin)
				_, _ = io.WriteString(nc, "Zxid: 0x0\nMode: standalone\n")
				_ = nc.Close()
			})
		}
	})
	e := &Ensemble{}
	e.members = []*Member{{ensemble: e, addrs: addrs{client: l.Addr().String()}, dir: t.TempDir()}}

	changes, err := e.Journal("/").Next(hang.Context(t))

	require.NoError(t, err)
	assert.Empty(t, changes)
}
