package history

import "time"

// ModelInPieces is Model for one queue, with pieces of at least piece operations, as far
// as the history can be cut.
func ModelInPieces(queue Queue, attempts []Attempt, within time.Duration, piece int) []Violation {
	m := newModelCheck(queue, attempts, within)
	m.piece = piece
	return m.judge()
}
