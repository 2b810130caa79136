//go:build unix

package testserver

import (
	"context"
	"os/exec"
)

// leash runs a program that does not look at its standard input, and kills it
// when that ends without a line: a shell in the background reads it, and $$ is
// what the program has become. Started that way it must not hold the program's
// output open, or nobody would see it end.
const leash = `exec 3<&0 </dev/null
{ read -r _ <&3 || kill -9 $$; } >/dev/null 2>&1 &
exec "$@" 3<&-`

// farewell keeps the shell of a program that is gone from killing whoever has
// got its number since.
const farewell = "\n"

func leashed(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", leash, "sh", name}, args...)...)
}
