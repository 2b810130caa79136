package telemetry

import (
	"strings"
	"sync"
	"unicode"
)

// DefaultMaxNames is how many different names of locks metrics show unless
// Options.MaxNames is set.
const DefaultMaxNames = 100

// Other is the name that metrics show for all locks beyond Options.MaxNames.
const Other = "other"

// maxName is the longest name that metrics show, in bytes of the lock's name: that of
// the longest name that a lock can have. The name of a request that is refused for its
// name may be longer.
const maxName = 512

// Options are the rule for the names of locks. The zero value is ready to use.
type Options struct {
	// Name returns the name that metrics show for a lock: "orders" for "orders/4711",
	// for example. For several locks at once it gets their names as Hold.Name shows
	// them. nil shows each name as it is. An empty result counts under Other, and so
	// does a lock for which Name panics: the panic is recovered, and the request goes
	// on. Name is called once for each request, by the goroutine of the caller, so it
	// must be safe for concurrent use and should be quick.
	Name func(lock string) string

	// MaxNames is how many different names metrics show at most, besides Other. 0 means
	// DefaultMaxNames; if it is negative, all locks count under Other. The names that
	// come first are shown, until the end of the process.
	MaxNames int
}

// names applies the rule. It is safe for concurrent use.
type names struct {
	of   func(string) string
	most int

	mu    sync.RWMutex
	shown map[string]struct{}
}

func newNames(o *Options) *names {
	n := &names{most: DefaultMaxNames, shown: map[string]struct{}{}}
	if o != nil {
		n.of = o.Name
		if o.MaxNames != 0 {
			n.most = o.MaxNames
		}
	}
	return n
}

// show returns what metrics show for a lock.
func (n *names) show(lock string) string {
	name := Printable(n.mapped(lock))
	if name == "" || name == Other {
		return Other
	}
	n.mu.RLock()
	_, ok := n.shown[name]
	n.mu.RUnlock()
	if ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.shown[name]; !ok && len(n.shown) >= n.most {
		return Other
	}
	n.shown[name] = struct{}{}
	return name
}

// mapped returns what Options.Name makes of a lock's name.
func (n *names) mapped(lock string) (name string) {
	if n.of == nil {
		return lock
	}
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	return n.of(lock)
}

// Printable returns a text as a value that every exporter can carry: at most its first
// 512 bytes, with U+FFFD in the place of each control character, each invisible
// character but spaces, and each byte that is not valid UTF-8.
func Printable(text string) string {
	if len(text) > maxName {
		text = strings.Clone(text[:maxName])
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
