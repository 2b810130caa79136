//go:build !linux

package driver

import "time"

// origin anchors Go's monotonic clock. It is never written again.
var origin = time.Now()

func bootTime() Instant { return Instant(time.Since(origin)) }
