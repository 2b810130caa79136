package redisstand

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/stand"
)

// Clients write a request in any pieces, or several at once.
func TestRequestsAreCountedHoweverTheyAreWritten(t *testing.T) {
	const (
		hello  = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
		setKey = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$4\r\n\r\n*1\r\n"
		join   = "*7\r\n$7\r\nEVALSHA\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\np\r\n$1\r\nl\r\n$1\r\ns\r\n$1\r\n0\r\n"
		see    = "*7\r\n$7\r\nEVALSHA\r\n$1\r\nb\r\n$1\r\n1\r\n$1\r\np\r\n$1\r\nl\r\n$1\r\n0\r\n$1\r\n0\r\n"
	)
	for _, size := range []int{1, 7, 1000} {
		tally := stand.NewTally(requestKinds(), oursPeriodic...)
		c := written(t, tally, hello+setKey+join+see+join, size)

		assert.False(t, c.renews)
		assert.Empty(t, c.written)
		assert.EqualValues(t, 4, tally.Requests(), "pieces of %d", size)
		assert.EqualValues(t, 3, tally.Prompted(), "a look is not prompted")
	}
}

// All scripts of the connection on which a session was opened are renewals.
func TestRenewalsAreCountedByTheirConnection(t *testing.T) {
	const (
		look  = "*5\r\n$4\r\nEVAL\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\np\r\n$4\r\nlook\r\n"
		renew = "*6\r\n$7\r\nEVALSHA\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\np\r\n$1\r\nl\r\n$1\r\ns\r\n"
	)
	tally := stand.NewTally(requestKinds(), oursPeriodic...)
	c := written(t, tally, look+renew+renew, 1000)

	assert.True(t, c.renews)
	assert.EqualValues(t, 3, tally.Requests())
	assert.Zero(t, tally.Prompted())
}

// written writes a text in pieces to a counted connection.
func written(t *testing.T, tally *stand.Tally, text string, size int) *counted {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	c := &counted{Conn: ours, tally: tally}
	for len(text) > 0 {
		piece := text[:min(size, len(text))]
		text = text[len(piece):]
		_, err := c.Write([]byte(piece))
		require.NoError(t, err)
	}
	return c
}
