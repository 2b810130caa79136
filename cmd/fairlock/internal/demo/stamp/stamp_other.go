//go:build !linux

package stamp

import "time"

// Now is the present moment. There is no portable monotonic clock that two
// processes share, so it is the time of day; who sets the clock during a
// demonstration spoils it.
func Now() Stamp { return Stamp(time.Now().UnixNano()) }
