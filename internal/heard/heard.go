// Package heard is what tests of programs hear of them: it lets them do something
// when a program says something, or wait until it has.
package heard

import (
	"bytes"
	"strings"
	"sync"
)

// Output is what a program has written. When Text is written for the first time,
// Then is called, and the program's write ends after it.
type Output struct {
	bytes.Buffer
	Text string
	Then func()
	once sync.Once
}

// Write is an [io.Writer]'s.
func (o *Output) Write(b []byte) (int, error) {
	if strings.Contains(string(b), o.Text) {
		defer o.once.Do(o.Then)
	}
	return o.Buffer.Write(b)
}
