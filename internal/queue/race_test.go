//go:build race

package queue

// raced: the race detector is on. A model has no goroutines for it to watch, and
// takes ten times as long.
const raced = true
