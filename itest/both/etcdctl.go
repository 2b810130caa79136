package both

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Etcdctl builds etcdctl, of the version that tools/go.mod names, and returns
// its path.
func Etcdctl(t *testing.T) string {
	t.Helper()
	_, here, _, ok := runtime.Caller(0)
	require.True(t, ok)
	binary := filepath.Join(t.TempDir(), "etcdctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "tools", "-o", binary, "go.etcd.io/etcd/etcdctl/v3")
	build.Dir = filepath.Join(filepath.Dir(here), "..", "..")
	build.Env = append(os.Environ(), "GOWORK=off") // tools is not in the workspace
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
