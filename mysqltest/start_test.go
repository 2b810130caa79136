package mysqltest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/testserver"
)

// planned returns a server of which nothing is made yet.
func planned(t *testing.T, opts Options) *Server {
	t.Helper()
	opts, err := opts.complete()
	require.NoError(t, err)
	return newServer(opts)
}

// Start tries again when another process took the port after it was found free. This test checks
// that Start recognizes that error.
func TestTakenPortIsRecognized(t *testing.T) {
	s := planned(t, Options{})
	defer s.Close()
	require.NoError(t, s.prepare(t.Context()))
	l, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	defer l.Close()

	err = s.launch(t.Context())

	require.Error(t, err)
	assert.True(t, testserver.PortTaken(err), "%v", err)
}

func TestStartThatTakesTooLongLeavesNothing(t *testing.T) {
	s := planned(t, Options{StartTimeout: time.Millisecond})

	err := s.begin(t.Context())

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no progress in 1ms")
	require.ErrorContains(t, err, "the end of its log")
	assert.True(t, testserver.Refused(s.Addr()))
	assert.NoDirExists(t, s.dir.Path())
}

func TestStartThatIsCancelledLeavesNothing(t *testing.T) {
	s := planned(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	err := s.begin(ctx)

	require.ErrorIs(t, err, context.Canceled)
	assert.NoDirExists(t, s.dir.Path())
}

func TestProgramsThatFailAreExplained(t *testing.T) {
	folder := t.TempDir()
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\necho no space >&2\nexit 1\n"), 0o755))
	}
	_, err := Start(t.Context(), &Options{Program: filepath.Join(folder, "mariadbd")})
	require.ErrorContains(t, err, "mysqltest: mariadb-install-db: exit status 1\nno space")
}

func TestFind(t *testing.T) {
	here, err := os.Executable()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		set       string
		inPath    map[string]string
		want, err string
	}{
		"set":              {set: here, want: here},
		"set to nothing":   {set: "/nowhere", err: `no program "/nowhere": set FAIRLOCK_MARIADB to mariadbd, or unset it`},
		"in PATH":          {inPath: map[string]string{"mariadbd": here}, want: here},
		"where root looks": {inPath: map[string]string{"/usr/sbin/mariadbd": here}, want: here},
		"nowhere":          {err: "apt-get install mariadb-server-core"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(c.set, func(program string) (string, error) {
				path, ok := c.inPath[program]
				if !ok {
					return "", exec.ErrNotFound
				}
				return path, nil
			})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestServersDoNotInheritVariablesOfMariaDB(t *testing.T) {
	assert.Equal(t,
		[]string{"PATH=/bin", "LC_ALL=C"},
		environment([]string{"PATH=/bin", "MYSQL_TCP_PORT=1", "MYSQL_HOME=/x", "LC_MESSAGES=de_DE.UTF-8", "LANG=de_DE.UTF-8", "LANGUAGE=de"}))
}
