package recipetest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// serial is a backend that fails the test if two calls about one entry overlap: the
// contract asks its caller to make them one at a time. A Leave with Any is an operator's,
// and may come at any time. It also records which of its entries are watched.
type serial struct {
	driver.Backend
	t   testing.TB
	own *ownEntries
}

// ownEntries are entries of a client.
type ownEntries struct {
	mu    sync.Mutex
	refs  map[session.Token][]driver.Ref
	armed map[driver.Ref]bool // the engine knows that a watch on the entry is armed
}

// watched reports whether each entry of a request has a watch that is armed.
func (o *ownEntries) watched(token session.Token) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(o.refs[token], func(ref driver.Ref) bool { return !o.armed[ref] })
}

// Open implements driver.Backend.
func (b serial) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &serialSession{Session: s, t: b.t, own: b.own, calls: map[driver.Ref]bool{}}, nil
}

type serialSession struct {
	driver.Session
	t   testing.TB
	own *ownEntries

	mu    sync.Mutex
	calls map[driver.Ref]bool // the entries about which a call is under way
}

// Join implements driver.Session.
func (s *serialSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	joined, err := s.Session.Join(ctx, reqs...)
	if err == nil {
		s.own.mu.Lock()
		defer s.own.mu.Unlock()
		token := session.Token(joined[0].Entry.Token)
		for _, j := range joined {
			s.own.refs[token] = append(s.own.refs[token], j.Entry.Ref)
		}
	}
	return joined, err
}

// Watch implements driver.Session.
func (s *serialSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return s.Session.Watch(t, func(ev driver.Event) {
		f(ev)
		s.own.mu.Lock()
		defer s.own.mu.Unlock()
		s.own.armed[t.Ref] = ev.Kind == driver.Armed || ev.Kind == driver.Changed
	})
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
