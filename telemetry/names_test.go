package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestNamesBeyondTheMostAreOther(t *testing.T) {
	n := newNames(&Options{MaxNames: 3})
	var got []string
	for _, lock := range []string{"a", "b", Other, "", "a", "c", "d", "b", "d"} {
		got = append(got, n.show(lock))
	}
	assert.Equal(t, []string{"a", "b", Other, Other, "a", "c", Other, "b", Other}, got)
}

// TestNamesAreBoundedUnderConcurrency: many goroutines show different names at
// once.
func TestNamesAreBoundedUnderConcurrency(t *testing.T) {
	n := newNames(nil)
	var mu sync.Mutex
	shown := map[string]bool{}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				name := n.show(fmt.Sprintf("%d/%d", worker, i))
				mu.Lock()
				shown[name] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	assert.Len(t, shown, DefaultMaxNames+1)
	assert.True(t, shown[Other])
}

func TestNameThatPanicsIsOther(t *testing.T) {
	n := newNames(&Options{Name: func(lock string) string { return lock[:3] }})
	assert.Equal(t, "ord", n.show("orders"))
	assert.Equal(t, Other, n.show("o"))
}

func TestPrintableTextIsValidAndShort(t *testing.T) {
	for text, want := range map[string]string{
		"orders/settle": "orders/settle", "": "", "ключ 鍵 🔑": "ключ 鍵 🔑", "a\x00b\n\x7f": "a\ufffdb\ufffd\ufffd",
		"\xff\xc3": "\ufffd\ufffd", "\u202egnp": "\ufffdgnp", "\u2028": "\ufffd", "a\u00a0b": "a\u00a0b",
	} {
		assert.Equal(t, want, Printable(text))
	}
	long := Printable(strings.Repeat("é", 10_000))
	assert.Equal(t, strings.Repeat("é", 256), long)
	assert.True(t, utf8.ValidString(Printable("x"+long)), "cut within a character")
}

func FuzzPrintable(f *testing.F) {
	f.Add("orders\xff\x00")
	f.Fuzz(func(t *testing.T, text string) {
		got := Printable(text)
		assert.True(t, utf8.ValidString(got))
		assert.NotContains(t, got, "\n")
		assert.LessOrEqual(t, len(got), 3*maxName)
		assert.Equal(t, Printable(got), Printable(Printable(got)))
	})
}
