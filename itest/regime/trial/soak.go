package trial

import (
	"context"
	"time"
)

// Soak is the name of mixed work as a kind.
const Soak = "soak"

// Soak has many clients work for a time.
func (r *Regime) Soak(ctx context.Context, d time.Duration) (*Result, error) {
	return &Result{Kind: Soak}, nil
}
