package session_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

func TestTokensGoThroughText(t *testing.T) {
	for _, want := range []session.Token{1, 42, math.MaxInt64} {
		got, err := session.ParseToken(want.String())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, text := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "0x1", "1_000", "1e3", "nine", "9223372036854775808"} {
		_, err := session.ParseToken(text)
		assert.Error(t, err, "%q", text)
	}
}

func TestALossIsItsReason(t *testing.T) {
	all := []session.Reason{
		session.ReasonDeadline, session.ReasonExpired, session.ReasonDeleted, session.ReasonEvicted, session.ReasonClosed,
	}
	for _, r := range all {
		err := error(&session.LostError{Name: "x", Token: 3, Reason: r})
		require.ErrorIs(t, err, session.ErrLost)
		assert.Contains(t, err.Error(), r.Error())
		assert.NotEqual(t, string(r), r.Error(), "a sentence")
		for _, other := range all {
			if r != other {
				require.NotErrorIs(t, err, other)
			}
		}
		require.ErrorIs(t, err, r)
	}
}
