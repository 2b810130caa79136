package term

// Install makes t the current term, as if it had been opened a moment before.
func (s *Terms) Install(t *Term) { s.install(t) }
