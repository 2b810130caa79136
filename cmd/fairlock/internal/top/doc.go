// Package top is the live view of fairlock top: a table of all locks, and the queue
// of the one that is open.
//
// State is what the user sees and Update what a key, a read or a new size makes of
// it. Both are pure. View draws a State as lines of text. Run is the loop around
// them: it owns the terminal, reads the service and does what Update asks for.
package top
