package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionsFromTheLeastOnesAreSupported(t *testing.T) {
	for s, want := range map[string]bool{
		"3.3.27": false, "3.4.24": false, "3.4.25": true, "3.4.40": true, "3.5.0": false, "3.5.7": false,
		"3.5.8": true, "3.5.21": true, "3.6.0-rc.1": true, "3.7.3": true, "4.0.0": true, "2.3.8": false,
	} {
		v, ok := parseVersion(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, v.supported(), s)
	}
}

func TestVersionsThatCannotBeReadAreUnknown(t *testing.T) {
	for _, s := range []string{"", "3", "3.5", "3.5.x", "not decided", "3.5.8.1", "3.-1.0"} {
		_, ok := parseVersion(s)
		assert.False(t, ok, s)
	}
}
