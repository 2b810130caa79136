//go:build !unix

package testserver

import (
	"context"
	"os/exec"
)

const farewell = ""

// Command is exec.CommandContext for a program that does not leave by itself when
// its standard input ends. Here nobody ends it when this process dies.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}
