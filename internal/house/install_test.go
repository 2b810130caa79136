package house

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tier"
)

// proxy writes the modules, as they are here, in the form in which a module proxy serves them
// (GOPROXY protocol, https://go.dev/ref/mod), and returns the folder. All have one version.
func proxy(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	require.NoError(t, err)
	files := strings.Split(strings.TrimSpace(string(out)), "\n")
	all := modules(t)
	for folder, m := range all {
		if slices.Contains(outside, folder) {
			continue
		}
		at := filepath.Join(dir, m.Module.Path, "@v")
		require.NoError(t, os.MkdirAll(at, 0o755))
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(at, "list"), []byte(version+"\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(at, version+".mod"), text, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(at, version+".info"), fmt.Appendf(nil, `{"Version":%q}`, version), 0o600))
		of := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return owner(all, file) != folder })
		archive(t, filepath.Join(at, version+".zip"), m.Module.Path+"@"+version, folder, of)
	}
	return dir
}

// owner returns the folder of the module that a file belongs to.
func owner(all map[string]goMod, file string) string {
	for folder := filepath.ToSlash(filepath.Dir(file)); folder != "."; folder = filepath.ToSlash(filepath.Dir(folder)) {
		if _, ok := all[folder]; ok {
			return folder
		}
	}
	return "."
}

// archive writes the zip file of a module.
func archive(t *testing.T, to, prefix, folder string, files []string) {
	t.Helper()
	f, err := os.Create(to)
	require.NoError(t, err)
	w := zip.NewWriter(f)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		require.NoError(t, err)
		inside, err := filepath.Rel(folder, file)
		require.NoError(t, err)
		entry, err := w.Create(prefix + "/" + filepath.ToSlash(inside))
		require.NoError(t, err)
		_, err = entry.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

// installed runs "go install" of the command as users do, from a proxy, and returns the program.
func installed(t *testing.T) string {
	t.Helper()
	version := readMod(t, "mod", "cmd/fairlock/go.mod").versions[modulePath]
	ask := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	bin := t.TempDir()
	from := []string{"file://" + proxy(t, version), "file://" + filepath.Join(ask("GOMODCACHE"), "cache", "download"), ask("GOPROXY")}
	cmd := exec.CommandContext(t.Context(), "go", "install", modulePath+"/cmd/fairlock@"+version)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOBIN="+bin, "GOMODCACHE="+t.TempDir(),
		"GOPROXY="+strings.Join(from, ","), "GONOSUMDB="+modulePath+","+modulePath+"/*")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(bin, "fairlock")
}

// TestTheCommandInstalls installs it as README shows.
func TestTheCommandInstalls(t *testing.T) {
	tier.Seldom(t)
	atRoot(t)

	program := installed(t)

	out, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `^fairlock v\d+\.\d+\.\d+ `, string(out))
	linked, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	require.NoError(t, err)
	assert.NotContains(t, string(linked), "go.etcd.io/etcd/server", "the command starts no server")
	t.Logf("the command has %d bytes and %d modules", size(t, program), strings.Count(string(linked), "\tdep\t"))
}
