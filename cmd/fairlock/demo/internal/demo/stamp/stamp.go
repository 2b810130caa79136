// Package stamp reads the one clock that all processes of a demonstration share, so
// that their reports can be compared.
package stamp

import "time"

// Stamp is a time of the machine's clock, in nanoseconds. It means the same in every
// process of one machine, and nothing on another machine.
type Stamp int64

// Sub returns the time from t to s.
func (s Stamp) Sub(t Stamp) time.Duration { return time.Duration(s - t) }
