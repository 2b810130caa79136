package exit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

func TestOfGivesTheLibrarysErrorsTheirCodes(t *testing.T) {
	for code, err := range map[int]error{
		Lost:        &session.LostError{Err: session.ErrDenied},
		Denied:      fmt.Errorf("open: %w", session.ErrDenied),
		Unavailable: fmt.Errorf("open: %w", session.ErrRefused),
		NotAcquired: &session.NotAcquiredError{},
		Usage:       fmt.Errorf("open: %w", session.ErrInvalidName),
		Software:    errors.New("disk on fire"),
		44:          fmt.Errorf("run: %w", &Error{Code: 44, Err: session.ErrLost}),
	} {
		var e *Error
		require.ErrorAs(t, Of(err), &e)

		assert.Equal(t, code, e.Code, "%v", err)
		assert.ErrorIs(t, Of(err), err)
	}
	assert.NoError(t, Of(nil))
	assert.NoError(t, With(1, nil))
}

func TestARequestThatGaveUpWithoutTheServiceIsUnavailable(t *testing.T) {
	err := &session.NotAcquiredError{Err: session.ErrUnavailable}

	var e *Error
	require.ErrorAs(t, Of(err), &e)

	assert.Equal(t, Unavailable, e.Code)
}

func TestPlainNamesNoLayer(t *testing.T) {
	for want, err := range map[string]error{
		"the service does not answer":             fmt.Errorf("etcd: leave \"a\": %w: %w", session.ErrUnavailable, context.DeadlineExceeded),
		"a permission is missing at the service":  fmt.Errorf("etcd: leave: %w", session.ErrDenied),
		"the service refuses it":                  fmt.Errorf("etcd: leave: %w", session.ErrRefused),
		"the service has not acknowledged it yet": fmt.Errorf("mutex: %w", session.ErrReleasePending),
		"disk full": errors.New("disk full"),
	} {
		assert.Equal(t, want, Plain(err))
	}
}
