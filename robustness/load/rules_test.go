package load

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryFigureThatDoesNotReturnIsReported(t *testing.T) {
	was := Figures{Heap: 1 << 20, Goroutines: 10, Files: 10, Server: Server{Keys: 10, Watches: 10, Sessions: 10, Streams: 10, Files: 10}}
	for figure, change := range map[string]func(*Figures){
		"heap":                           func(f *Figures) { f.Heap += heapSlack + 100*mapRoom + 1 },
		"goroutines":                     func(f *Figures) { f.Goroutines++ },
		"file descriptors":               func(f *Figures) { f.Files++ },
		"keys at the server":             func(f *Figures) { f.Keys-- },
		"fences at the server":           func(f *Figures) { f.Fences++ },
		"watches at the server":          func(f *Figures) { f.Watches++ },
		"sessions at the server":         func(f *Figures) { f.Server.Sessions-- },
		"streams at the server":          func(f *Figures) { f.Streams++ },
		"file descriptors of the server": func(f *Figures) { f.Server.Files += serverFilesSlack + 1 },
	} {
		is := was
		change(&is)

		broken := brokenRules(rules(100, false), &was, &is)
		if assert.Len(t, broken, 1, figure) {
			assert.Contains(t, broken[0], figure+": ")
		}
	}
	assert.Empty(t, brokenRules(rules(100, false), &was, &was))
}

// Watches last longer than the holds that needed them, so the bound of the heap must
// count the watches that exist at once.
func TestWatchesRaiseTheNumberOfThingsAtOnce(t *testing.T) {
	r := &run{res: &Result{}, atOnce: 16}

	r.note("busy", Figures{Server: Server{Watches: 2500}})
	r.note("rest", Figures{})

	assert.Equal(t, 2500, r.atOnce)
}
