package waits

import (
	"runtime"
	"strings"
)

// ours is what the names of this module's functions begin with.
const ours = "github.com/fairlock/fairlock/"

// frames returns the stack of a request from the exported function of the recipe that the
// program has called, for example Mutex.Lock.
func frames(stack []uintptr) []runtime.Frame {
	if len(stack) == 0 {
		return nil
	}
	var all []runtime.Frame
	for next := runtime.CallersFrames(stack); ; {
		f, more := next.Next()
		if f.Function != "runtime.goexit" {
			all = append(all, f)
		}
		if !more {
			break
		}
	}
	return all[entry(all):]
}

// entry returns the index of the frame in which the program has entered the library. The
// frames before it are those of hooks and of the inside of the library. A hook of the
// program that calls those of a Table is among them, so the first frame that is not the
// library's need not be the program's call.
func entry(all []runtime.Frame) int {
	at := 0
	for at < len(all) && !inside(all[at].Function) {
		at++
	}
	if at == len(all) {
		return 0
	}
	for at+1 < len(all) && inside(all[at+1].Function) {
		at++
	}
	return at
}

// inside reports whether a function belongs to what a request passes in the library. The
// tests of these packages do not.
func inside(function string) bool {
	path, found := strings.CutPrefix(function, ours)
	if !found {
		return false
	}
	name, _, _ := strings.Cut(path, ".")
	return !strings.HasSuffix(name, "_test") &&
		(name == "session" || strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "recipes/"))
}
