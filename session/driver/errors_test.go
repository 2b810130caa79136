package driver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnErrorAfterAnUnknownAttemptDoesNotMeanNotDone(t *testing.T) {
	for _, cause := range []error{ErrDenied, ErrRefused} {
		err := fmt.Errorf("write: %w", cause)
		assert.Equal(t, err, Outcome(err, false))
		unclear := Outcome(err, true)
		assert.NotErrorIs(t, unclear, cause)
		assert.False(t, Incurable(unclear))
		assert.ErrorIs(t, unclear, ErrUnavailable)
		assert.ErrorContains(t, unclear, err.Error())
	}
	for _, err := range []error{nil, ErrGone, ErrSessionOver, ErrClosed, errors.New("other")} {
		assert.Equal(t, err, Outcome(err, true))
	}
}
