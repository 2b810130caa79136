package testserver

import (
	"context"
	"os/exec"
)

// Command is exec.CommandContext for a program that does not leave by itself when
// its standard input ends. With Start it dies with this process all the same:
// here the kernel sees to it, on other systems a shell that watches the input.
// Only where there is no such shell can it be left behind.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}
