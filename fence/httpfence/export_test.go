package httpfence

import "net/http"

// Serving returns for how many resources a Handler keeps something.
func Serving(h http.Handler) int {
	s := &h.(*handler).serving
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Requests returns how many requests for a resource are served or wait.
func Requests(h http.Handler, resource string) int {
	s := &h.(*handler).serving
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[resource] == nil {
		return 0
	}
	return s.all[resource].requests
}
