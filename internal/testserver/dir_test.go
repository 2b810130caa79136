package testserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyAnEmptyDirectoryIsAccepted(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)

	got, err := EmptyDir(".")
	require.NoError(t, err)
	assert.Equal(t, dir, got)

	_, err = EmptyDir("nowhere")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	_, err = EmptyDir("file")
	require.Error(t, err)
	_, err = EmptyDir(filepath.Join(dir, "."))
	require.ErrorContains(t, err, "not empty")
}
