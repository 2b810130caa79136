package driver

import "strings"

// asks ends the name of a line of asks. No lock has such a name: a NUL is refused.
const asks = "\x00asks"

// AskLine is the queue of the yield requests for a lock, which any backend keeps next
// to the lock's own queue. A yield request is an entry there, on the session of its
// sender, so what holds of entries holds of yield requests. Its value is the reason.
//
// A backend treats it as any other queue, with two exceptions: no program that uses the
// lock's queue, and no watch of it, is affected by it; and Names does not return it.
func AskLine(name string) string { return name + asks }

// AskedLine is the inverse of AskLine; false if that queue is not one of yield
// requests.
func AskedLine(line string) (name string, ok bool) { return strings.CutSuffix(line, asks) }
