package both

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// judge is a testing.TB that only records whether it failed.
type judge struct {
	testing.TB
	failed bool
}

func (j *judge) Helper()               {}
func (j *judge) Errorf(string, ...any) { j.failed = true }

// TestASecretIsFoundWhereItIs hides a secret in all the ways that the search must find.
func TestASecretIsFoundWhereItIs(t *testing.T) {
	t.Parallel()
	const password = "S3cret-marker-77"
	type hidden struct{ deep any }
	s := NewSecret(password)
	for name, value := range map[string]any{
		"text":    "a " + password,
		"bytes":   []byte("user:" + password),
		"shifted": struct{ Credentials []byte }{[]byte("x:" + password)},
		"error":   fmt.Errorf("open: %w", errors.New(password)),
		"hidden":  hidden{[]byte(password)},
	} {
		j := &judge{TB: t}
		s.Kept(j, name, value)
		assert.True(t, j.failed, name)
	}
	p := password
	for name, value := range map[string]any{
		"pointer": &hidden{&p},
		"map":     map[string]any{"a": []any{&hidden{&p}}},
	} {
		j := &judge{TB: t}
		s.Nowhere(j, name, value)
		assert.True(t, j.failed, name)
	}
	j := &judge{TB: t}
	s.Nowhere(j, "nothing", map[string]any{"a": &hidden{[]byte("other")}})
	assert.False(t, j.failed)
}
