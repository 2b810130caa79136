package rule

import (
	"errors"
	"fmt"
)

// Why a request never holds, whatever it waits for. Package session shows these to users under
// the same names.
var (
	// ErrWeight: the request asks for fewer permits than one, or for more than there are.
	ErrWeight = errors.New("number of permits out of range")

	// ErrLimitMismatch: the queue has a different limit than the caller gave.
	ErrLimitMismatch = errors.New("limit mismatch")

	// ErrForeignKey: an entry without a session is ahead, which never goes by itself.
	ErrForeignKey = errors.New("entry without a session in the queue")
)

// WeightError returns the error of a request for more permits than there are.
func WeightError(weight, limit int64) error {
	return fmt.Errorf("%w: %d, the limit is %d", ErrWeight, max(weight, 1), limit)
}

// LimitError is the error of a request with a different limit than the queue has.
type LimitError struct {
	Limit int64 // the queue's
	Asked int64 // the caller's
}

// Error names both.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit mismatch: the service has %d, the caller gave %d", e.Limit, e.Asked)
}

// Is makes errors.Is(err, ErrLimitMismatch) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimitMismatch }
