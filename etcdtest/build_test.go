package etcdtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
)

func TestBuildThatIsCancelledLeavesNoFiles(t *testing.T) {
	bin, file := t.TempDir(), filepath.Join(t.TempDir(), "temporary")
	script := "#!/bin/sh\ntrap 'rm " + file + "; exit 1' INT\n: >" + file + "\nwhile :; do sleep 0.05; done\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() { // ends with ctx
		_, err := goCommand(ctx, "build")
		failed <- err
	}()
	hang.Until(t, func() bool {
		_, err := os.Stat(file)
		return err == nil
	}, "the go command has not begun")

	cancel()

	require.ErrorIs(t, <-failed, context.Canceled)
	assert.NoFileExists(t, file)
}

func TestErrorOfABuildWithVendorNamesTheRemedy(t *testing.T) {
	vendored := "cannot find module providing package " + serverPackage + ": import lookup disabled by -mod=vendor\n"
	assert.Contains(t, explained(vendored), "go get -tool github.com/fairlock/fairlock/etcdtest/etcdserver && go mod vendor")
	assert.Equal(t, "undefined: x", explained("undefined: x\n"))
}
