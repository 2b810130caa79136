// Package progtest is for tests that run programs: it keeps what a program writes,
// waits for a text in it or calls a function when that text comes, and resets the
// signals that a program inherits.
package progtest

import (
	"bytes"
	"strings"
	"sync"
)

// Trigger keeps what a program writes. When Text is written for the first time, it
// calls Then before the program's write returns.
type Trigger struct {
	bytes.Buffer
	Text string
	Then func()
	once sync.Once
}

// Write implements [io.Writer].
func (t *Trigger) Write(b []byte) (int, error) {
	if strings.Contains(string(b), t.Text) {
		defer t.once.Do(t.Then)
	}
	return t.Buffer.Write(b)
}
