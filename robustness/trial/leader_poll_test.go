package trial

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

// TestTimeWithoutLeaderIsMeasured while it lasts, and afterwards.
func TestTimeWithoutLeaderIsMeasured(t *testing.T) {
	defer goleak.VerifyNone(t)
	const pause = 300 * time.Millisecond
	asked, elected := make(chan struct{}), make(chan struct{})
	first := true
	r := pollLeader(t.Context(), func(ctx context.Context) (int, error) {
		if first {
			first = false
			close(asked)
			select {
			case <-elected:
			case <-ctx.Done():
				return -1, ctx.Err()
			}
		}
		return 0, nil
	})
	<-asked
	time.Sleep(pause)
	assert.GreaterOrEqual(t, r.leaderless(), pause)
	close(elected)
	r.end()
	assert.GreaterOrEqual(t, r.leaderless(), pause)
}

// TestProgressBoundIncludesTheTimeWithoutLeader: a wait may take as long as the service had
// no leader, plus a constant, if that is longer than the bound without it.
func TestProgressBoundIncludesTheTimeWithoutLeader(t *testing.T) {
	assert.Equal(t, TTL+failover+expiryDelay, maxWait((*leaderPoll)(nil).leaderless()))
	assert.Equal(t, TTL+failover+expiryDelay, maxWait(failover-findLeader))
	assert.Equal(t, TTL+11*time.Second+findLeader+expiryDelay, maxWait(11*time.Second))
}
