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
	here := strings.ReplaceAll(example(t, "backup.service"), "/usr/local/bin/fairlock", "/bin/true") // the program must exist
	for name, text := range map[string]string{"backup.service": here, "backup.timer": example(t, "backup.timer")} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		for line := range strings.Lines(string(out)) {
			assert.NotContains(t, line, "backup.", "%s", out)
		}
	}
}
