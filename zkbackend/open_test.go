package zkbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// The version of a writer's node is 0 until the downgrade, with a seal and without.
func TestTheConditionOfAWriterFailsAfterItsDowngrade(t *testing.T) {
	for _, c := range []struct {
		name string
		mode session.Mode
		want int32
	}{
		{"0123456789abcdefx-__WRIT__0000000004", session.Exclusive, 0},
		{"0123456789abcdef-__WRIT__0000000004", session.Exclusive, 0},
		{"0123456789abcdef__lock__0000000004", session.Exclusive, 0},
		{"0123456789abcdefx-__WRIT__0000000004", session.Shared, -1},
		{"0123456789abcdef-__READ__0000000004", session.Shared, -1},
		{"0123456789abcdefx-lock-0000000004", session.Exclusive, -1},
		{"0123456789abcdefxv-lock-0000000004", session.Exclusive, -1},
	} {
		got := condition(driver.Ref{Queue: "q", Key: "/r/q/" + c.name, Place: 5}, c.mode)
		assert.Equal(t, "/r/q/"+c.name, got.Path)
		assert.Equal(t, c.want, got.Version, c.name)
	}
}
