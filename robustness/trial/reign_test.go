package trial

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"
)

// TestATimeWithoutLeaderIsNoted while it lasts, and afterwards.
func TestATimeWithoutLeaderIsNoted(t *testing.T) {
	defer goleak.VerifyNone(t)
	const pause = 300 * time.Millisecond
	asked, elected := make(chan struct{}), make(chan struct{})
	first := true
	r := watchLeader(t.Context(), func(ctx context.Context) (int, error) {
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
	assert.GreaterOrEqual(t, r.without(), pause)
	close(elected)
	r.end()
	assert.GreaterOrEqual(t, r.without(), pause)
}

// TestNobodyIsBlamedForATimeWithoutLeader: what has no leader for long may take as
// long and a little more, and nothing else takes longer for that.
func TestNobodyIsBlamedForATimeWithoutLeader(t *testing.T) {
	assert.Equal(t, TTL+failover+slack, progress((*reign)(nil).without()))
	assert.Equal(t, TTL+failover+slack, progress(failover-finding))
	assert.Equal(t, TTL+11*time.Second+finding+slack, progress(11*time.Second))
}
