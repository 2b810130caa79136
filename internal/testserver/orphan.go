package testserver

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
)

// Server is a server that was started.
type Server struct {
	Pid  int
	Addr string // host and port of its own listener
}

// parentEnv makes the test binary a parent that the test kills.
const parentEnv = "FAIRLOCK_TEST_PARENT"

// Parent is called first in TestMain. In a process that [DieWithParent] has
// started, it starts the servers, reports them, and waits to be killed.
func Parent(start func() ([]Server, error)) {
	if os.Getenv(parentEnv) == "" {
		return
	}
	servers, err := start()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(servers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		_, _ = io.Copy(io.Discard, os.Stdin) // until our own parent exits
	}
	os.Exit(1)
}

// DieWithParent kills a parent of n servers, and checks that the servers release
// their ports.
func DieWithParent(t testing.TB, n int) {
	t.Helper()
	cmd, err := process.Self(t.Context(), parentEnv, "1")
	if err != nil {
		t.Fatal(err)
	}
	// The parent leaves its data in a directory that the test removes.
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	parent := process.StartPiped(cmd)
	var servers []Server
	err = json.NewDecoder(parent).Decode(&servers)
	parent.Halt()
	if err != nil || len(servers) != n {
		t.Fatalf("%d servers, want %d: %v: %v", len(servers), n, err, parent.Err())
	}
	for _, s := range servers {
		hang.Until(t, func() bool { return Refused(s.Addr) }, "process %d still has its port", s.Pid)
	}
}
