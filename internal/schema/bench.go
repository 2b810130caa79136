package schema

import (
	"encoding/json"
	"math"
	"time"
)

// Fine is a duration, written as a number of seconds with at most six decimals.
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

// Spread is a distribution of durations.
type Spread struct {
	// Count is the number of measurements. The others are 0 if it is 0.
	Count int64 `json:"count"`
	P50   Fine  `json:"p50"`
	P99   Fine  `json:"p99"`
	Max   Fine  `json:"max"`
}

// Bench is the result of a benchmark of a service.
type Bench struct {
	Header

	Locks    int     `json:"locks"`
	Clients  int     `json:"clients"`
	Hold     Seconds `json:"hold"`
	Duration Seconds `json:"duration"`

	Acquisitions int64   `json:"acquisitions"`
	PerSecond    float64 `json:"per_second"`
	// Acquire is from the request to the grant. HandOff is from the beginning of a
	// release until a client that waited at that time holds.
	Acquire Spread `json:"acquire"`
	HandOff Spread `json:"hand_off"`
	// Fairness is Jain's index of the clients' numbers of acquisitions, of the lock
	// where it is least.
	Fairness float64 `json:"fairness"`
	// OrderViolations are grants whose token is not above the one before. Overlaps
	// are grants during the hold of another client. Both must be 0.
	OrderViolations int64 `json:"order_violations"`
	Overlaps        int64 `json:"overlaps"`
	// Lost are holds that ended before they were released.
	Lost int64 `json:"lost"`
}

// NewBench returns a Bench with its header set.
func NewBench() Bench { return Bench{Header: head("bench")} }
