package recording

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProgramRunsOnATerminal(t *testing.T) {
	chunks, err := Record(t.Context(), Size{40, 5}, "sh", "-c", `stty size; printf '\033[1mhi\033[0m'`)

	require.NoError(t, err)
	s := newScreen(Size{40, 5})
	for i, c := range chunks {
		s.write(c.Text)
		assert.GreaterOrEqual(t, c.At, chunks[max(i-1, 0)].At)
	}
	assert.Equal(t, "5 40\nhi", s.picture().String())
}

func TestAProgramThatFailsIsNotRecorded(t *testing.T) {
	_, err := Record(t.Context(), Size{40, 5}, "sh", "-c", "exit 3")

	assert.EqualError(t, err, "exit status 3")
	_, err = Record(t.Context(), Size{40, 5}, "no-such-program")
	assert.Error(t, err)
}
