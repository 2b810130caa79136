package both

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shared is a service that all tests of a package may use if they do it no harm.
// Start starts it for the first of them.
type Shared[S io.Closer] struct {
	Start func(context.Context) (S, error)

	mu      sync.Mutex
	service S
	users   int
}

// Use returns the service, and a number for each test that uses it. The test must
// use a root of its own.
func (s *Shared[S]) Use(t testing.TB) (service S, user int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		var err error
		s.service, err = s.Start(context.Background())
		require.NoError(t, err)
	}
	s.users++
	return s.service, s.users
}

// Close ends the service, if it was started. TestMain calls it after all tests.
func (s *Shared[S]) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return nil
	}
	return s.service.Close()
}
