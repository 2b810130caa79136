package history

import "time"

// ModelInPieces is Model for one line, with stretches of so many operations, if
// they can be cut.
func ModelInPieces(line Line, attempts []Attempt, within time.Duration, piece int) []Violation {
	l := newLineup(line, attempts, within)
	l.piece = piece
	return l.judge()
}
