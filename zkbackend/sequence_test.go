package zkbackend

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// TestAJoinWithOneOfTheLastNumbersIsRefused, deletes its entry, and leaves nothing to settle.
func TestAJoinWithOneOfTheLastNumbersIsRefused(t *testing.T) {
	for number, last := range map[string]bool{"2146435070": false, "2146435071": true, "2147483647": true, "-000000001": true} {
		s := &server{answer: func(r request) []byte {
			if r.deletes() {
				return deleted(r)
			}
			return bytes.ReplaceAll(joined(r), []byte("0000000007"), []byte(number))
		}}
		scripted(t, s, func(t *testing.T, c *zkSession) {
			all, err := c.Join(t.Context(), driver.JoinRequest{Queue: "q"})
			if !last {
				require.NoError(t, err, number)
				assert.EqualValues(t, sequenceGuard, all[0].Entry.Place, "the place is the number and one")
				assert.Zero(t, s.counted(request.deletes))
				return
			}
			require.ErrorIs(t, err, ErrSequence, number)
			require.ErrorIs(t, err, driver.ErrRefused, number)
			assert.ErrorContains(t, err, "/r/q got the number")
			assert.NotErrorAs(t, err, new(*driver.PendingError), number)
			assert.Equal(t, 1, s.counted(request.deletes), number)
		})
	}
}
