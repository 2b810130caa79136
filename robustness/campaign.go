package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fairlock/fairlock/robustness/trial"
)

// campaign is one run of the program.
type campaign struct {
	service  service
	lock     string
	duration time.Duration
	each     int
	parallel int
	soak     time.Duration
	only     []string
	seed     uint64
	first    int64
	out      string
	anew     time.Duration
	drawn    *drawing // instead of all that

	svc     trial.Service
	test    *trial.Test
	results *results
	kinds   []string
	since   time.Time // when the service was started
}

// errFailed says that the table tells what is wrong.
var errFailed = errors.New("see the table")

func (c *campaign) run(ctx context.Context) (err error) {
	if c.results, err = newResults(c.out, c.service.name, c.lock); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.results.close()) }()
	about := c.about(ctx)
	if err := about.Write(c.out); err != nil { // a run may be killed
		return err
	}
	defer func() {
		about.Took, about.Load = time.Since(about.Began), busy()
		err = errors.Join(err, about.Write(c.out))
	}()
	if err := c.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	fmt.Fprintf(os.Stderr, "robustness: %s on %s, seed %d, results in %s\n", c.lock, c.service.name, c.seed, c.out)

	end := make(<-chan time.Time)
	if c.duration > 0 {
		end = time.After(c.duration)
	}
	for pass := 1; ; pass++ {
		more, err := c.pass(ctx, end)
		if err != nil {
			return errors.Join(err, c.report())
		}
		if !more || ctx.Err() != nil {
			return c.report()
		}
		if c.anew > 0 && time.Since(c.since) > c.anew {
			if err := c.start(ctx); err != nil {
				return errors.Join(err, c.report())
			}
		}
	}
}

// close ends the service, if there is one: it may not have come up again.
func (c *campaign) close() error {
	if c.svc == nil {
		return nil
	}
	svc := c.svc
	c.svc = nil
	return svc.Close()
}

// open starts the service.
func (c *campaign) open(ctx context.Context) (err error) {
	svc, err := c.service.start(ctx)
	if err != nil {
		return err
	}
	c.svc = svc
	if !slices.Contains(c.svc.Locks(), c.lock) {
		return errors.Join(fmt.Errorf("there is no lock %q on %s, but %q", c.lock, c.service.name, c.svc.Locks()), c.close())
	}
	c.since = time.Now()
	c.test = trial.New(c.svc, c.lock, c.seed)
	c.test.First = c.first
	clients, servers, err := c.test.Kinds(ctx)
	if err != nil {
		return errors.Join(err, c.close())
	}
	c.kinds = slices.Concat(clients, servers)
	for _, kind := range c.only {
		if kind != trial.Soak && !slices.Contains(c.kinds, kind) {
			return errors.Join(fmt.Errorf("there is no kind %q, but %q", kind, c.kinds), c.close())
		}
	}
	if len(c.only) > 0 {
		c.kinds = slices.DeleteFunc(c.kinds, func(kind string) bool { return !slices.Contains(c.only, kind) })
	}
	return nil
}

// pass plays one round of every kind that has not enough trials, and says whether
// there is any for another pass. A service that is of no use any more is replaced.
func (c *campaign) pass(ctx context.Context, end <-chan time.Time) (more bool, err error) {
	for _, kind := range slices.Clone(c.kinds) {
		select {
		case <-end:
			return false, nil
		default:
		}
		missing := c.each - c.results.tried(kind)
		if missing <= 0 || ctx.Err() != nil {
			continue
		}
		rs, broken := c.round(ctx, kind, min(missing, c.parallel))
		if errors.Is(broken, errors.ErrUnsupported) {
			fmt.Fprintf(os.Stderr, "robustness: %s: %v\n", kind, broken)
			c.kinds = slices.DeleteFunc(c.kinds, func(k string) bool { return k == kind })
			continue
		}
		if ctx.Err() != nil {
			break // it was ended from outside, and shows nothing
		}
		err := c.results.add(rs)
		if broken != nil {
			err = errors.Join(err, c.replace(ctx, broken))
		}
		if err != nil {
			return false, err
		}
		more = more || c.results.tried(kind) < c.each
	}
	return more, c.mixed(ctx)
}

// replace starts the service anew.
func (c *campaign) replace(ctx context.Context, why error) error {
	c.results.broken = append(c.results.broken, why)
	fmt.Fprintf(os.Stderr, "robustness: a new cluster, because of %v\n", why)
	return c.start(ctx)
}

// start starts the service anew, and draws other scripts from now on: the first
// ones have been played.
func (c *campaign) start(ctx context.Context) error {
	c.seed++
	return errors.Join(c.close(), c.open(ctx))
}

// mixed is the mixed work at the end of a pass.
func (c *campaign) mixed(ctx context.Context) error {
	if c.soak == 0 || ctx.Err() != nil || len(c.only) > 0 && !slices.Contains(c.only, trial.Soak) {
		return nil //nolint:nilerr // a run that was ended is reported as far as it went
	}
	r, err := c.test.Soak(ctx, c.soak)
	if err == nil && ctx.Err() == nil { // one that was ended from outside shows nothing
		err = c.results.add([]*trial.Result{r})
	}
	return err
}

func (c *campaign) round(ctx context.Context, kind string, n int) ([]*trial.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, trial.Wait)
	defer cancel()
	began := trial.Now()
	rs, err := c.test.Round(ctx, kind, n)
	hits, bad := 0, 0
	for _, r := range rs {
		if r.Hit() {
			hits++
		}
		if len(r.Violations) > 0 {
			bad++
		}
	}
	fmt.Fprintf(os.Stderr, "robustness: %-24s %3d trials, %3d hit, %3d with violations, %s\n",
		kind, len(rs), hits, bad, time.Duration(trial.Now()-began).Round(100*time.Millisecond))
	return rs, err
}

// report prints the table, and says whether the run has failed.
func (c *campaign) report() error {
	c.results.print(os.Stdout)
	if c.results.missed() > 0 || len(c.results.broken) > 0 || c.lock == trial.Ours && c.results.violated() > 0 {
		return errFailed
	}
	return nil
}
