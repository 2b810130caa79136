package pgtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/pgtest"
)

func TestMain(m *testing.M) {
	testserver.Parent(orphanParent)
	goleak.VerifyTestMain(m)
}

// value returns the one value of a query.
func value[T any](t *testing.T, s *pgtest.Server, sql string, args ...any) T {
	t.Helper()
	v, err := pgtest.Value[T](hang.Context(t), s, sql, args...)
	require.NoError(t, err)
	return v
}
