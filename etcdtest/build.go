package etcdtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const serverPackage = "github.com/fairlock/fairlock/etcdtest/etcdserver"

// build returns the path of the server program. The go command keeps the
// programs that it runs in its build cache, so the second test that asks gets it
// at once, with nothing to lock, to share or to clean up between test processes;
// and "go run" will tell us where if we give it a program to run it with that
// only prints its arguments. Where that fails, dir gets a copy of its own.
func build(ctx context.Context, dir string) (string, error) {
	for range 2 { // the first time the program is built, and in no cache yet
		path, err := goCommand(ctx, "run", "-exec", "echo", serverPackage)
		if err != nil {
			break
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path := filepath.Join(dir, "etcdserver.exe") // the suffix hurts nobody
	_, err := goCommand(ctx, "build", "-o", path, serverPackage)
	return path, err
}

func goCommand(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("etcdtest: build the server: go %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
