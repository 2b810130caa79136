package etcdtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const serverPackage = "github.com/fairlock/fairlock/etcdtest/etcdserver"

// build returns the path of the server program. The go command keeps the
// programs that it runs in its build cache. So a second test gets the program at
// once, and test processes have nothing to lock, to share or to clean up. "go
// run -exec echo" prints the path of the program instead of running it. Where
// that fails, build puts a copy into dir.
func build(ctx context.Context, dir string) (string, error) {
	for range 2 { // the first run builds the program, before it is in the cache
		path, err := goCommand(ctx, "run", "-exec", "echo", serverPackage)
		if err != nil {
			break
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path := filepath.Join(dir, "etcdserver.exe") // only Windows needs the suffix
	_, err := goCommand(ctx, "build", "-o", path, serverPackage)
	return path, err
}

// goCommand returns what a go command prints. When ctx ends, the go command is
// interrupted, not killed: it removes its temporary files.
func goCommand(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second // then it is killed
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		err = cmp.Or(ctx.Err(), err)
		return "", fmt.Errorf("etcdtest: build the server: go %s: %w: %s", args[0], err, explained(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// explained adds the remedy to the error of a go command that looked only into a vendor
// directory, where the server is not: no program imports it.
func explained(stderr string) string {
	stderr = strings.TrimSpace(stderr)
	if strings.Contains(stderr, "-mod=vendor") {
		stderr += "\nrun: go get -tool " + serverPackage + " && go mod vendor"
	}
	return stderr
}
