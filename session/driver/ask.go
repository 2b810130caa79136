package driver

import "strings"

// asks ends the name of a line of asks. No lock has such a name: a NUL is refused.
const asks = "\x00asks"

// AskLine is the line of those who ask whoever holds a lock to yield, as any
// backend has it beside the lock's own line. Who asks stands there for as long
// as he does, with an entry on his own session: so what holds of entries holds of
// asks. Its value is the reason.
//
// A backend treats it as any other line, with two exceptions: no program that
// stands in the lock's line, and no watch of it, meets anything of it; and Names
// does not tell it.
func AskLine(name string) string { return name + asks }

// AskedLine is the inverse of AskLine; false if that line is not one of asks.
func AskedLine(line string) (name string, ok bool) { return strings.CutSuffix(line, asks) }
