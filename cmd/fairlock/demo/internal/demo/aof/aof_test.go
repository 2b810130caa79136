package aof

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommandsAreReadAsTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	_, err := Find(dir)
	require.ErrorContains(t, err, "0 append-only files")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "appendonlydir"), 0o700))
	path := filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	found, err := Find(dir)
	require.NoError(t, err)
	assert.Equal(t, path, found)
	ctx, stop := context.WithCancel(t.Context())
	got, done := make(chan Command, 8), make(chan error, 1)
	go func() { done <- Follow(ctx, path, func(c Command) { got <- c }) }()

	text := "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n#TS:1\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n\x00x\r\n"
	for i := range len(text) { // a write can end anywhere
		_, err := file.WriteString(text[i : i+1])
		require.NoError(t, err)
		if i%20 == 0 {
			time.Sleep(poll)
		}
	}

	assert.Equal(t, Command{Args: []string{"SELECT", "0"}, At: 23}, <-got)
	assert.Equal(t, Command{Args: []string{"SET", "a", "\r\n\x00x"}, At: int64(len(text))}, <-got)
	stop()
	assert.NoError(t, <-done)
}

func TestWhatIsNoCommandIsAnError(t *testing.T) {
	for _, text := range []string{"x\r\n", "*1\r\nx\r\n", "*x\r\n", "*-1\r\n", "*1\r\n$-1\r\n"} {
		path := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

		err := Follow(t.Context(), path, func(Command) {})

		assert.ErrorContains(t, err, "aof: at 0: ", text)
	}
}
