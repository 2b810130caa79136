//go:build !linux && !darwin

package pgtest

// unlinkSegment does nothing: here a server that is killed leaves its segment behind.
func (s *Server) unlinkSegment(int) {}
