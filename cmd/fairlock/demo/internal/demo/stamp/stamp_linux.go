package stamp

import "github.com/fairlock/fairlock/session/driver"

// Now returns the present time of CLOCK_BOOTTIME, which sessions use too.
func Now() Stamp { return Stamp(driver.SystemClock().Now()) }
