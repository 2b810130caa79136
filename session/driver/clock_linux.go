package driver

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func bootTime() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// The kernel has had this clock since 2.6.39. Without a clock there is
		// no deadline, and without a deadline no lock.
		panic(fmt.Sprintf("driver: read CLOCK_BOOTTIME: %v", err))
	}
	return Instant(ts.Nano())
}
