package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/zktest"
)

// sharedServer is one server that every test may use that does it no harm.
type sharedServer struct {
	mu       sync.Mutex
	ensemble *zktest.Ensemble
	tests    int
}

var shared sharedServer

// use returns the shared server, and a root for this test alone.
func (s *sharedServer) use(t testing.TB) (e *zktest.Ensemble, root string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ensemble == nil {
		var err error
		s.ensemble, err = zktest.Start(context.Background(), nil)
		require.NoError(t, err)
	}
	s.tests++
	return s.ensemble, fmt.Sprint("/root", s.tests)
}

func (s *sharedServer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ensemble == nil {
		return nil
	}
	return s.ensemble.Close()
}
