package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/redistest"
)

func TestMain(m *testing.M) {
	testserver.Parent(orphanParent)
	goleak.VerifyTestMain(m)
}

// do runs a command that must succeed.
func do(t *testing.T, s *redistest.Server, command ...string) {
	t.Helper()
	require.NoError(t, s.Do(hang.Context(t), command...).Error())
}

// value returns the text that a command returns.
func value(t *testing.T, s *redistest.Server, command ...string) string {
	t.Helper()
	text, err := s.Do(hang.Context(t), command...).ToString()
	require.NoError(t, err)
	return text
}

// field returns a field of INFO.
func field(t *testing.T, s *redistest.Server, section, name string) string {
	t.Helper()
	fields, err := s.Info(hang.Context(t), section)
	require.NoError(t, err)
	return fields[name]
}
