package trial

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
)

// lateWrite has an old hold and a new one access a resource. The write of the old one
// arrives late.
func lateWrite(r *Resource, old, next int64) ([]history.Violation, history.ResourceCounts) {
	late := r.Read(history.Attempt{Client: 1, Token: old})
	own := r.Read(history.Attempt{Client: 2, Token: next})
	late.Write()
	own.Write()
	own.Write() // does nothing: it has written
	return r.Judge("queue")
}

func TestALateWriteIsRefusedByItsToken(t *testing.T) {
	found, toll := lateWrite(NewResource(history.Queue{Recipe: history.Mutex}), 7, 9)

	assert.Empty(t, found)
	assert.Equal(t, history.ResourceCounts{Accepted: 3, Refused: 1, Writes: 1, Unfenced: 1}, toll)
}

func TestALateWriteWithoutATokenLosesAnUpdate(t *testing.T) {
	found, toll := lateWrite(NewResource(history.Queue{Recipe: history.Mutex}), 0, 0)

	require.NotEmpty(t, found)
	assert.Equal(t, "S3", found[0].Property)
	assert.EqualValues(t, 1, toll.Lost)
}

func TestTokensThatFallAreSeen(t *testing.T) {
	r := NewResource(history.Queue{Recipe: history.Mutex})
	r.Read(history.Attempt{Client: 1, Token: 9}).Write()
	r.touches[1].Token = 10 // as if it had been checked against a clock
	r.touches = append(r.touches, history.Touch{Client: 2, Token: 8, Value: 1})

	found, _ := r.Judge("queue")

	require.Len(t, found, 1)
	assert.Contains(t, found[0].Text, "accepted with the token 8, after 10")
}

func TestReadersDoNotWriteAndSemaphoresHaveNoOrder(t *testing.T) {
	r := NewResource(history.Queue{Recipe: history.ReadWrite})
	r.Read(history.Attempt{Client: 1, Token: 5, Shared: true}).Write()
	assert.Len(t, r.touches, 1)

	none := NewResource(history.Queue{Recipe: history.Semaphore})
	none.Read(history.Attempt{Client: 1, Token: 5}).Write()
	found, toll := none.Judge("queue")
	assert.Empty(t, found)
	assert.Zero(t, toll)
}
