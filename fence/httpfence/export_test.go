package httpfence

import "net/http"

// Serving returns for how many resources a Handler keeps something.
func Serving(h http.Handler) int {
	s := &h.(*handler).serving
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
