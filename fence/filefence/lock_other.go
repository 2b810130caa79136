//go:build !unix

package filefence

import (
	"context"
	"errors"
)

// lock is not supported here.
func lock(context.Context, string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
