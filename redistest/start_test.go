package redistest

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
	return newServer(opts, role{secret: "secret"})
}

// Start tries again when another process took the port after it was found free. This test checks
// that Start recognizes that error.
func TestTakenPortIsRecognized(t *testing.T) {
	s := planned(t, Options{})
	defer s.Close()
	require.NoError(t, s.prepare(t.Context()))
	require.NoError(t, s.configure())
	l, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	defer l.Close()

	err = s.launch(t.Context())

	require.Error(t, err)
	assert.True(t, testserver.PortTaken(err), "%v", err)
}

func TestStartThatTakesTooLongLeavesNothing(t *testing.T) {
	silent := filepath.Join(t.TempDir(), "redis-server")
	require.NoError(t, os.WriteFile(silent, []byte("#!/bin/sh\necho is it this >&2\nexec sleep 600\n"), 0o700))
	dir := t.TempDir()
	s := planned(t, Options{Dir: dir, StartTimeout: 100 * time.Millisecond, Program: silent})

	err := s.begin(t.Context())

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no progress in 100ms")
	require.ErrorContains(t, err, "the end of its log:\nis it this")
	require.NoError(t, os.Remove(dir), "it must be empty")
	assert.NoDirExists(t, s.dir.Path())
}

func TestStartThatIsCancelledLeavesNothing(t *testing.T) {
	s := planned(t, Options{Clock: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	err := s.begin(ctx)

	require.ErrorIs(t, err, context.Canceled)
	assert.NoDirExists(t, s.dir.Path())
}

func TestFind(t *testing.T) {
	folder := t.TempDir()
	program := func(name string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
		return path
	}
	set, redis, valkey := program("set"), program("redis-server"), program("valkey-server")
	none := func(string) (string, error) { return "", exec.ErrNotFound }
	onlyValkey := func(name string) (string, error) {
		if name == "valkey-server" {
			return valkey, nil
		}
		return "", exec.ErrNotFound
	}
	both := func(name string) (string, error) { return filepath.Join(folder, name), nil }
	for name, c := range map[string]struct {
		set       string
		lookPath  func(string) (string, error)
		want, err string
	}{
		"set":               {set, both, set, ""},
		"set to nothing":    {folder + "/none", both, "", "set FAIRLOCK_REDIS to redis-server or valkey-server, or unset it"},
		"in PATH":           {"", both, redis, ""},
		"Valkey in PATH":    {"", onlyValkey, valkey, ""},
		"nowhere":           {"", none, "", "make redis"},
		"nowhere, Debian":   {"", none, "", "apt-get install redis-server"},
		"nowhere, variable": {"", none, "", "or set FAIRLOCK_REDIS"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(c.set, c.lookPath)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestMissingCompilerIsNamed(t *testing.T) {
	t.Setenv("CC", "/nowhere/cc -m64")
	_, err := Start(t.Context(), &Options{Clock: true})
	require.ErrorContains(t, err, `no C compiler "/nowhere/cc" here`)
	require.ErrorContains(t, err, "make redis")

	t.Setenv("CC", "false")
	_, err = Start(t.Context(), &Options{Clock: true})
	require.ErrorContains(t, err, "redistest: clock: ")
}

func TestReplicasAreRecognizedByTheirFirstMessage(t *testing.T) {
	for head, want := range map[string]struct {
		label string
		ok    bool
	}{
		"*1\r\n":                            {"", false},
		"*1\r\n$4\r\nPING\r\n":              {Replicas, true},
		"*1\r\n$4\r\nPING\r\n*1\r\n":        {"", true},
		"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n":  {"", true},
		"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n":   {"", true},
		"PING\r\n":                          {"", true},
		"*1\r\n$4\r\nPINT\r\n":              {"", true},
		"*1\r\n$7\r\nCOMMAND\r\n":           {"", true},
		"\x16\x03\x01 the beginning of TLS": {"", true},
	} {
		label, ok := labelOf([]byte(head))
		assert.Equal(t, want.label, label, "%q", head)
		assert.Equal(t, want.ok, ok, "%q", head)
	}
}

func TestReplicaIsOnlineWhenItsMasterSendsToIt(t *testing.T) {
	master := map[string]string{
		"role": "master", "connected_slaves": "2",
		"slave0":                     "ip=127.0.0.1,port=7001,state=send_bulk,offset=0,lag=0",
		"slave11":                    "ip=127.0.0.1,port=7002,state=online,offset=14,lag=1",
		"slave_expires_tracked_keys": "port=7001,state=online",
	}
	assert.False(t, online(master, "7001"))
	assert.True(t, online(master, "7002"))
	assert.False(t, online(master, "700"))
}
