// Package top is the live view of fairlock top: a table of all locks, and the queue
// of the one that is open.
//
// State is what the user sees. Update returns the State after an event, such as a key, a
// read or a new size. View draws a State as lines of text. Both are pure functions. Run
// is the loop around them: it owns the terminal, reads the service and carries out the
// Commands that Update returns.
package top
