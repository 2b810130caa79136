//go:build !linux

package recording

import (
	"context"
	"errors"
)

// Play is for Linux only: elsewhere pseudo-terminals are made in other ways.
func Play(context.Context, Size, string, ...string) ([]Chunk, error) {
	return nil, errors.New("films are made on Linux")
}
