package worker

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/fairlock/fairlock/session"
)

// Resource is a resource outside the service that holders write to. It refuses every token
// below the highest that it has seen.
type Resource struct {
	URL string

	mu              sync.Mutex
	highest         session.Token
	written, denied int
}

// NewResource returns a Resource that exists until the test ends.
func NewResource(t testing.TB) *Resource {
	r := &Resource{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, err := strconv.ParseInt(req.URL.Query().Get("token"), 10, 64)
		if err != nil || !r.Put(session.Token(token)) {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// Put is a write with a token. It reports whether the token was accepted.
func (r *Resource) Put(token session.Token) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		r.denied++
		return false
	}
	r.highest = token
	r.written++
	return true
}

// Counts returns how many writes went through and how many were refused.
func (r *Resource) Counts() (written, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written, r.denied
}
