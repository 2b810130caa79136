package stamp

import "github.com/fairlock/fairlock/session/driver"

// Now is the present moment: CLOCK_BOOTTIME, by which sessions count too.
func Now() Stamp { return Stamp(driver.SystemClock().Now()) }
