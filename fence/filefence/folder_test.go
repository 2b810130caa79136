//go:build unix

package filefence

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

func TestAFolderKeepsTheMarksOfAnyNames(t *testing.T) {
	dir := t.TempDir()
	d := Folder(dir)
	names := []string{"", ".", "..", "a/b", "A", "a", "\x00", strings.Repeat("long", 100)}
	for i, name := range names {
		require.NoError(t, d.Touch(t.Context(), name, session.Token(10+i), session.Exclusive), "%q", name)
	}
	for i, name := range names {
		require.ErrorIs(t, d.Touch(t.Context(), name, session.Token(9+i), session.Exclusive), fence.ErrStale, "%q", name)
		require.NoError(t, d.Forget(t.Context(), name), "%q", name)
		require.NoError(t, d.Forget(t.Context(), name), "%q", name)
	}

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
