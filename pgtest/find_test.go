package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// programs makes a folder with programs.
func programs(t *testing.T, folder string, names ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"), 0o755))
	}
	return folder
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	set := programs(t, filepath.Join(root, "set"), "postgres", "initdb")
	half := programs(t, filepath.Join(root, "half"), "postgres")
	path := programs(t, filepath.Join(root, "path"), "postgres", "initdb")
	linked := programs(t, filepath.Join(root, "linked"))
	require.NoError(t, os.Symlink(filepath.Join(path, "postgres"), filepath.Join(linked, "postgres")))
	debian := filepath.Join(root, "debian")
	programs(t, filepath.Join(debian, "9", "bin"), "postgres", "initdb")
	newest := programs(t, filepath.Join(debian, "17", "bin"), "postgres", "initdb")
	programs(t, filepath.Join(debian, "18", "bin"), "initdb") // only a part is installed
	for name, c := range map[string]struct {
		in        places
		want, err string
	}{
		"set":               {places{set: set, debian: debian}, set, ""},
		"set to a half":     {places{set: half, debian: debian}, "", "no program initdb in the folder"},
		"set to nothing":    {places{set: root, debian: debian}, "", "set FAIRLOCK_POSTGRES to such a folder or unset it"},
		"in PATH":           {places{debian: debian, lookPath: found(path)}, path, ""},
		"linked in PATH":    {places{debian: debian, lookPath: found(linked)}, path, ""},
		"a half in PATH":    {places{debian: debian, lookPath: found(half)}, newest, ""},
		"newest of Debian":  {places{debian: debian, lookPath: notFound}, newest, ""},
		"nowhere":           {places{debian: half, lookPath: notFound}, "", "apt-get install postgresql"},
		"nowhere, variable": {places{debian: half, lookPath: notFound}, "", "or set FAIRLOCK_POSTGRES"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(c.in)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func found(folder string) func(string) (string, error) {
	return func(program string) (string, error) { return filepath.Join(folder, program), nil }
}

func notFound(string) (string, error) { return "", exec.ErrNotFound }

func TestWhatIsSetAndMissingIsNamed(t *testing.T) {
	for variable, find := range map[string]func() (string, error){clockVariable: findClock, bouncerVariable: findBouncer} {
		t.Setenv(variable, "/nowhere")
		_, err := find()
		require.ErrorContains(t, err, variable+` is "/nowhere"`)

		there, err := os.Executable()
		require.NoError(t, err)
		t.Setenv(variable, there)
		got, err := find()
		require.NoError(t, err)
		assert.Equal(t, there, got)
	}
}
