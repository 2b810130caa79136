package drive

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// Free is a job with a lock that many hold together, and that grants one more request at once.
type Free struct {
	Holders Group
	Times   int           // how often the additional contender acquires and releases, after a first time
	Settle  time.Duration // how long nothing must happen before it acquires
}

// Contenders returns the number of contenders that the job needs.
func (f Free) Contenders() int { return f.Holders.contenders() + 1 }

// FreeResult is what all acquisitions together took, each from its beginning to its grant.
type FreeResult struct {
	Trips    int64 // round trips of the client that acquires
	Requests int64 // its requests, of which some may be under way at the same time
}

func (f Free) run(ctx context.Context, s stand.Stand, t *stand.Team, name string) (sum FreeResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := newLineup(ctx, s, t, name, f.Holders.N)
	defer func() { err = errors.Join(err, l.stop()) }()
	if err := l.form(ctx, f.Holders); err != nil {
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
		if turn > 0 { // the first acquisition may create what remains
			sum.Trips += client.Trips() - trips
			sum.Requests += client.Requests() - requests
		}
		if err := unlock(); err != nil {
			return sum, err
		}
	}
	return sum, nil
}
