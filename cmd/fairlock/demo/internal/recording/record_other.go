//go:build !linux

package recording

import (
	"context"
	"errors"
)

// Record is for Linux only: other systems create pseudo-terminals in other ways.
func Record(context.Context, Size, string, ...string) ([]Chunk, error) {
	return nil, errors.New("recordings are made on Linux only")
}
