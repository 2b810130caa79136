package pgtest

import (
	"context"
	"net"
	"os"
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
	as, err := findServerUser()
	require.NoError(t, err)
	return newServer(opts, as)
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

	b := &Bouncer{server: s}
	b.close = b.shutdown
	defer b.Close()
	b.program, err = findBouncer()
	require.NoError(t, err)
	require.NoError(t, b.prepare(t.Context(), BouncerOptions{Mode: "transaction", PoolSize: 1}))
	lb, err := net.Listen("tcp", b.Addr())
	require.NoError(t, err)
	defer lb.Close()

	err = b.launch(t.Context())

	require.Error(t, err)
	assert.True(t, testserver.PortTaken(err), "%v", err)
}

func TestStartThatTakesTooLongLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // the server may be another user's
	s := planned(t, Options{Dir: dir, StartTimeout: time.Millisecond, Config: map[string]string{"shared_preload_libraries": "auto_explain", "log_min_messages": "panic"}})

	err := s.begin(t.Context())

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no progress in 1ms")
	require.ErrorContains(t, err, "the end of its log")
	assert.True(t, testserver.Refused(s.Addr()))
	require.NoError(t, os.Remove(dir), "it must be empty")
	assert.NoDirExists(t, s.Socket())
}

func TestStartThatIsCancelledLeavesNothing(t *testing.T) {
	for name, made := range map[string]bool{"before initdb": false, "after initdb": true} {
		t.Run(name, func(t *testing.T) {
			s := planned(t, Options{})
			if made {
				require.NoError(t, s.prepare(t.Context()))
				require.NoError(t, os.RemoveAll(s.data))
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()

			err := s.begin(ctx)

			require.ErrorIs(t, err, context.Canceled)
			assert.NoDirExists(t, s.Socket())
		})
	}
}

func TestProgramsThatFailAreExplained(t *testing.T) {
	programs := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(programs), 0o711)) // the server may be another user's
	for _, program := range []string{"initdb", "postgres"} {
		require.NoError(t, os.WriteFile(filepath.Join(programs, program), []byte("#!/bin/sh\necho no space >&2\nexit 1\n"), 0o755))
	}
	_, err := Start(t.Context(), &Options{Programs: programs})
	require.ErrorContains(t, err, "pgtest: initdb: exit status 1\nno space")

	require.NoError(t, os.Chmod(programs, 0o700))
	_, err = Start(t.Context(), &Options{Programs: programs})
	if os.Getuid() == 0 {
		require.ErrorContains(t, err, "must be able to enter the folder")
	} else {
		require.ErrorContains(t, err, "no space")
	}
}

func TestStatusIsThatOfThisPostmaster(t *testing.T) {
	const whole = "17\n/data\n1700000000\n20001\n/socket\n127.0.0.1\n   9984096         4\nready   \n"
	for name, c := range map[string]struct {
		text string
		pid  int
		want status
		ok   bool
	}{
		"ready":      {whole, 17, status{4, true}, true},
		"another's":  {whole, 18, status{}, false},
		"starting":   {"17\n/data\n1\n20001\n/socket\n127.0.0.1\n 9984096 4\nstarting\n", 17, status{4, false}, true},
		"no segment": {"17\n/data\n1\n20001\n/socket\n127.0.0.1\n\nready\n", 17, status{-1, true}, true},
		"half":       {"17\n/data\n", 17, status{}, false},
		"empty":      {"", 17, status{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStatus(c.text, c.pid)
			assert.Equal(t, c.ok, err == nil)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestServersDoNotInheritPostgresVariables(t *testing.T) {
	assert.Equal(t,
		[]string{"PATH=/bin", "LC_ALL=C"},
		environment([]string{"PATH=/bin", "PGPORT=1", "PGDATA=/x", "LC_MESSAGES=de_DE.UTF-8", "LANG=de_DE.UTF-8", "LANGUAGE=de"}))
}

func TestTextsAreQuoted(t *testing.T) {
	assert.Equal(t, `'it''s'`, quoted("it's"))
	assert.Equal(t, `'a\'b\\c'`, conninfo(`a'b\c`))
	assert.Equal(t, "a = '1'\nb = 'x y'\n", lines(map[string]string{"b": "x y", "a": "1"}))
}
