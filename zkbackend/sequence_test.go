package zkbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatKeepsAFolderFromBeingRemoved: entries of this library end with their sessions, and so do
// others' with lower numbers.
func TestWhatKeepsAFolderFromBeingRemoved(t *testing.T) {
	const ours, low, last = "0123456789abcdefx-lock-2147483647", "lock-0000000007", "lock-2147483647"
	for _, c := range []struct {
		children []string
		any      []string // of which obstacle returns one; none: "" is returned
	}{
		{nil, nil},
		{[]string{ours, low}, nil},
		{[]string{"y", ours, "z"}, nil},
		{[]string{"y", low}, nil},
		{[]string{"y"}, []string{"y"}},
		{[]string{"y", "z"}, []string{"y", "z"}},
		{[]string{"y", ours, last}, []string{last}},
		{[]string{"x-lock--000000001", low}, []string{"x-lock--000000001"}},
	} {
		if got := obstacle(c.children); c.any == nil {
			assert.Empty(t, got, "%q", c.children)
		} else {
			assert.Contains(t, c.any, got, "%q", c.children)
		}
	}
}
