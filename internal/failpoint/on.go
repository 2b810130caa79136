//go:build failpoints

package failpoint

import "sync/atomic"

// enabled is the failpoint that is on.
var enabled atomic.Uint32

// On reports whether p is on.
func On(p Point) bool { return Point(enabled.Load()) == p }

// Enable turns p on. Only one failpoint is on at a time: any other goes off.
func Enable(p Point) { enabled.Store(uint32(p)) }

// Disable turns off the failpoint that is on.
func Disable() { Enable(none) }
