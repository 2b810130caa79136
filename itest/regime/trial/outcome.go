package trial

import (
	"errors"

	"github.com/fairlock/fairlock/itest/regime/history"
	"github.com/fairlock/fairlock/session"
)

// Outcome says what the answer of a Hold's Unlock means, for both services.
func Outcome(err error) (history.Outcome, error) {
	switch {
	case err == nil:
		return history.Given, nil
	case errors.Is(err, session.ErrReleasePending):
		return history.Pending, nil
	case errors.Is(err, session.ErrLost):
		return history.Lost, nil
	default:
		return history.NotGiven, err
	}
}
