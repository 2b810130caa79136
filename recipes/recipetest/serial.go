package recipetest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

// serial is a backend that fails the test if two calls about one entry overlap: the
// contract asks its caller to make them one at a time. A Leave with Any is an operator's,
// and may come at any time.
type serial struct {
	driver.Backend
	t testing.TB
}

// Open implements driver.Backend.
func (b serial) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &serialSession{Session: s, t: b.t, calls: map[driver.Ref]bool{}}, nil
}

type serialSession struct {
	driver.Session
	t testing.TB

	mu    sync.Mutex
	calls map[driver.Ref]bool // the entries about which a call is under way
}

// Update implements driver.Session.
func (s *serialSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	if !req.Entry.Zero() {
		defer s.begin(req.Entry)()
	}
	return s.Session.Update(ctx, req)
}

// Leave implements driver.Session.
func (s *serialSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	for _, req := range reqs {
		if !req.Any {
			defer s.begin(req.Ref)()
		}
	}
	return s.Session.Leave(ctx, reqs...)
}

// begin records a call about an entry, until end is called.
func (s *serialSession) begin(ref driver.Ref) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.False(s.t, s.calls[ref], "two calls about the entry %q overlap", ref.Key)
	s.calls[ref] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, ref)
	}
}
