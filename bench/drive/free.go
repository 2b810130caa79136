package drive

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// Free is a lock that many hold together, and that admits one more at once.
type Free struct {
	Holders Crowd
	Times   int           // how often the one more comes and goes, after a first time
	Settle  time.Duration // how long nothing must happen before it comes
}

// Contenders is how many it needs.
func (f Free) Contenders() int { return f.Holders.contenders() + 1 }

// FreeResult is what acquisitions took from their beginnings to their grants, all together.
type FreeResult struct {
	Trips    int64 // round trips, of the client that acquires
	Requests int64 // and its requests, of which some may be under way at once
}

func (f Free) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (sum FreeResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := assemble(ctx, s, t, name, f.Holders.N)
	defer func() { err = errors.Join(err, a.dismiss()) }()
	if err := a.form(ctx, f.Holders); err != nil {
		return sum, err
	}
	i := f.Holders.contenders()
	client := t.Tallies[i%len(t.Tallies)]
	for turn := range f.Times + 1 {
		if err := t.Quiet(ctx, f.Settle); err != nil {
			return sum, err
		}
		trips, requests := client.Trips(), client.Requests()
		unlock, _, err := f.Holders.Lock.lock(ctx, t.Contenders[i], name)
		if err != nil {
			return sum, err
		}
		if turn > 0 { // the first may make what stays
			sum.Trips += client.Trips() - trips
			sum.Requests += client.Requests() - requests
		}
		if err := unlock(); err != nil {
			return sum, err
		}
	}
	return sum, nil
}
