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
	service   service
	lock      string
	duration  time.Duration
	each      int
	parallel  int
	soak      time.Duration
	only      []string
	seed      uint64
	first     int64
	transport string // "" for all in turn
	out       string
	restart   time.Duration // the flag -anew
	drawn     *drawing      // if not nil, the program draws a report and runs no trials

	svc     trial.Service
	test    *trial.Test
	results *results
	kinds   []string  // of the service as it is now
	without []string  // that are not supported
	all     []string  // of all transports that were tried
	passes  int64     // that are over
	since   time.Time // when the service was started
}

// turns returns the transports that the passes take turns with.
func (c *campaign) turns() []string {
	all := c.service.transports
	switch {
	case c.transport != "" || len(all) == 0:
		return []string{c.transport}
	case c.service.peers[c.lock] != "":
		return []string{c.service.peers[c.lock]}
	case c.lock != trial.Ours:
		return all[:1]
	default:
		return all
	}
}

// errFailed reports that the run has failed; the table shows why.
var errFailed = errors.New("see the table")

func (c *campaign) run(ctx context.Context) (err error) {
	c.results, err = newResults(c.out, c.service.name, c.lock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.results.close()) }()
	about := c.about(ctx)
	if err := about.Write(c.out); err != nil { // now, because the run may be killed
		return err
	}
	defer func() {
		about.Took, about.Load = time.Since(about.Began), loadAverage()
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
	for {
		more, err := c.pass(ctx, end)
		if err != nil {
			return errors.Join(err, c.report())
		}
		if !more || ctx.Err() != nil {
			return c.report()
		}
		if err := c.next(ctx); err != nil {
			return errors.Join(err, c.report())
		}
	}
}

// next ends a pass. It replaces the service if the next pass has another transport, or if the
// service has run for too long.
func (c *campaign) next(ctx context.Context) error {
	c.passes++
	switch {
	case len(c.turns()) > 1: // the seed stays: the rounds have other numbers
		return errors.Join(c.close(), c.open(ctx))
	case c.restart > 0 && time.Since(c.since) > c.restart:
		return c.reopen(ctx)
	}
	return nil
}

// close stops the service, if there is one: a restart may have failed.
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
	turns := c.turns()
	svc, err := c.service.start(ctx, turns[c.passes%int64(len(turns))])
	if err != nil {
		return err
	}
	c.svc = svc
	if !slices.Contains(c.svc.Locks(), c.lock) {
		return errors.Join(fmt.Errorf("unknown lock %q; the locks on %s are %q", c.lock, c.service.name, c.svc.Locks()), c.close())
	}
	c.since = time.Now()
	c.test = trial.New(c.svc, c.lock, c.seed)
	c.test.First = max(c.first, 1) + c.passes
	clients, servers, err := c.test.Kinds(ctx)
	if err != nil {
		return errors.Join(err, c.close())
	}
	c.kinds = slices.DeleteFunc(slices.Concat(clients, servers), func(kind string) bool { return slices.Contains(c.without, kind) })
	for _, kind := range c.only {
		known := kind == trial.Soak || kind == trial.LeftBehind || slices.Contains(c.without, kind) || slices.Contains(c.kinds, kind)
		if !known && len(c.turns()) == 1 { // another transport may have it

			return errors.Join(fmt.Errorf("unknown kind of fault %q; the kinds are %q", kind, c.kinds), c.close())
		}
	}
	if len(c.only) > 0 {
		c.kinds = slices.DeleteFunc(c.kinds, func(kind string) bool { return !slices.Contains(c.only, kind) })
	}
	for _, kind := range c.kinds {
		if !slices.Contains(c.all, kind) {
			c.all = append(c.all, kind)
		}
	}
	return nil
}

// pass runs one round of every kind that does not have enough trials, and reports whether
// another pass is needed. If a round breaks the service, pass replaces it. A round leaves
// trials for the other transports.
func (c *campaign) pass(ctx context.Context, end <-chan time.Time) (more bool, err error) {
	turns := len(c.turns())
	share := (c.each + turns - 1) / turns
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
		rs, broken := c.round(ctx, kind, min(missing, share, c.parallel))
		if errors.Is(broken, errors.ErrUnsupported) {
			fmt.Fprintf(os.Stderr, "robustness: %s: %v\n", kind, broken)
			c.without = append(c.without, kind)
			for _, kinds := range []*[]string{&c.kinds, &c.all} {
				*kinds = slices.DeleteFunc(*kinds, func(k string) bool { return k == kind })
			}
			continue
		}
		if ctx.Err() != nil {
			break // the run was interrupted, so this round shows nothing
		}
		err := c.results.add(rs)
		if broken != nil {
			err = errors.Join(err, c.replace(ctx, broken))
		}
		if err != nil {
			return false, err
		}
	}
	return c.more(), errors.Join(c.mixed(ctx), c.leftBehind(ctx))
}

// more reports whether a kind does not have enough trials, or a transport has had no turn.
func (c *campaign) more() bool {
	return c.passes+1 < int64(len(c.turns())) ||
		slices.ContainsFunc(c.all, func(kind string) bool { return c.results.tried(kind) < c.each })
}

// leftBehind looks, at the end of a pass, whether anything is left of sessions that are over.
func (c *campaign) leftBehind(ctx context.Context) error {
	if ctx.Err() != nil || len(c.only) > 0 && !slices.Contains(c.only, trial.LeftBehind) {
		return nil //nolint:nilerr // an interrupted run is reported as far as it went
	}
	r, err := c.test.LeftBehind(ctx)
	if err != nil || r == nil || ctx.Err() != nil {
		return err
	}
	return c.results.add([]*trial.Result{r})
}

// replace records why the service is useless, and starts another one.
func (c *campaign) replace(ctx context.Context, why error) error {
	c.results.broken = append(c.results.broken, why)
	fmt.Fprintf(os.Stderr, "robustness: a new cluster, because of %v\n", why)
	return c.reopen(ctx)
}

// reopen stops the service and starts another one. The seed changes, so that the new
// service does not run the same scripts again.
func (c *campaign) reopen(ctx context.Context) error {
	c.seed++
	return errors.Join(c.close(), c.open(ctx))
}

// mixed runs the mixed work at the end of a pass.
func (c *campaign) mixed(ctx context.Context) error {
	if c.soak == 0 || ctx.Err() != nil || len(c.only) > 0 && !slices.Contains(c.only, trial.Soak) {
		return nil //nolint:nilerr // an interrupted run is reported as far as it went
	}
	r, err := c.test.Soak(ctx, c.soak)
	if err == nil && ctx.Err() == nil { // an interrupted soak shows nothing
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
	fmt.Fprintf(os.Stderr, "robustness: %-5s %-24s %3d trials, %3d hit, %3d with violations, %s\n",
		c.svc.Transport(), kind, len(rs), hits, bad, time.Duration(trial.Now()-began).Round(100*time.Millisecond))
	return rs, err
}

// report prints the table, and returns errFailed if the run has failed.
func (c *campaign) report() error {
	c.results.print(os.Stdout)
	if c.results.missed() > 0 || len(c.results.broken) > 0 || c.lock == trial.Ours && c.results.violated() > 0 {
		return errFailed
	}
	return nil
}
