package command

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
)

// A program under nohup ignores SIGHUP. After a SIGHUP it continues to wait, and then runs
// its command, which ignores SIGHUP too.
func TestAnIgnoredHangupStaysIgnored(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "busy")
		r := prepared(t, url, "run", "busy", "--", "sh", "-c", "kill -HUP $$; echo ran")
		r.Args = append([]string{"/bin/sh", "-c", `trap '' HUP; exec "$0" "$@"`, r.Path}, r.Args[1:]...)
		r.Path = "/bin/sh"
		r.start(t)
		hasEntries(t, s, "busy", 2)

		require.NoError(t, r.Process.Signal(syscall.SIGHUP))
		recipetest.Unlock(t, h)

		assert.Equal(t, 0, r.code(t), r.err.String())
		assert.Equal(t, "ran\n", r.out.String())
		assert.NotContains(t, r.err.String(), "interrupted")
	})
}

func TestTheExitCodeDoesNotDependOnAReaderOfStderr(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		holdOf(t, openSession(t, url, ""), "busy")
		reader, stderr, err := os.Pipe()
		require.NoError(t, err)
		r := prepared(t, url, "run", "-w", "100ms", "busy", "--", "true")
		r.Stderr = stderr
		require.NoError(t, reader.Close())

		r.start(t)

		require.NoError(t, stderr.Close())
		assert.Equal(t, 75, r.code(t), "not 141, or -1, for SIGPIPE")
	})
}
