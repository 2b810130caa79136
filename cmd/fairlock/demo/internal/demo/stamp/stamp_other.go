//go:build !linux

package stamp

import "time"

// Now returns the time of day, because there is no portable monotonic clock that
// processes share. A demonstration is wrong if the clock is set while it runs.
func Now() Stamp { return Stamp(time.Now().UnixNano()) }
