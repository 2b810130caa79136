package schema

import (
	"encoding/json"
	"math"
	"time"
)

// Fine is a duration, written as a number of seconds with up to six digits behind
// the point.
type Fine time.Duration

// MarshalJSON implements json.Marshaler.
func (f Fine) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(f).Microseconds()) / 1e6)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Fine) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &seconds); err != nil {
		return err
	}
	*f = Fine(time.Duration(math.Round(seconds*1e6)) * time.Microsecond)
	return nil
}

// Spread is how long something took.
type Spread struct {
	// Count is how often it was measured; the others are 0 if never.
	Count int64 `json:"count"`
	P50   Fine  `json:"p50"`
	P99   Fine  `json:"p99"`
	Max   Fine  `json:"max"`
}

// Bench is what was measured of a service.
type Bench struct {
	Header

	Locks    int     `json:"locks"`
	Clients  int     `json:"clients"`
	Hold     Seconds `json:"hold"`
	Duration Seconds `json:"duration"`

	Acquisitions int64   `json:"acquisitions"`
	PerSecond    float64 `json:"per_second"`
	// Acquire is from asking to holding, and HandOff from when a holder begins to
	// give back until one who was waiting then holds.
	Acquire Spread `json:"acquire"`
	HandOff Spread `json:"hand_off"`
	// Fairness is Jain's index of how often the clients of a lock had it, of the
	// lock where it is least.
	Fairness float64 `json:"fairness"`
	// OrderViolations are grants whose token is not above the one before, and
	// Overlaps those while somebody else held. Both must be 0.
	OrderViolations int64 `json:"order_violations"`
	Overlaps        int64 `json:"overlaps"`
	// Lost are holds that ended before they were given back.
	Lost int64 `json:"lost"`
}

// NewBench returns one in which the header is set.
func NewBench() Bench { return Bench{Header: head("bench")} }
