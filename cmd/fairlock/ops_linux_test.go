package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Only systemd itself knows whether it is a unit.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	require.NoError(t, err, "install systemd (Debian: apt-get install systemd), as make test does")
	dir := t.TempDir()
	for _, name := range []string{"backup.service", "backup.timer"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(example(t, name)), 0o600))
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		for line := range strings.Lines(string(out)) {
			assert.NotContains(t, line, "backup.", "%s", out)
		}
	}
}
