//go:build unix && !linux

package testserver

import (
	"context"
	"os/exec"
)

// Command is exec.CommandContext for a program that does not leave by itself when
// its standard input ends. With Start it dies with this process all the same: a
// shell watches the input.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return leashed(ctx, name, args...)
}
