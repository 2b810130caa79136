//go:build !race

package queue

// raced: the race detector is on.
const raced = false
