package designs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fairlock/fairlock/robustness/onpg"
)

// Campaign is a run over stores, designs and faults. Empty lists mean all.
type Campaign struct {
	Stores, Locks, Faults []string
	Each                  int // trials of a design under a fault
	Parallel              int // trials at the same time
	Seed                  uint64
	First                 int64  // the number of the first round of each pair
	Out                   string // the folder for results
	Trials, Measures      bool   // what to run
	Command               string // as the results name it
	Log                   io.Writer
}

// Run runs all trials and measures, and writes them into files of Out as it goes.
func (c *Campaign) Run(ctx context.Context) error {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	for _, s := range Stores() {
		if !wanted(c.Stores, s.Name) {
			continue
		}
		if err := c.store(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func wanted(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// store runs all trials of a store, into a file of its own.
func (c *Campaign) store(ctx context.Context, s *Store) (err error) {
	trials, err := os.OpenFile(filepath.Join(c.Out, s.Name+trialsEnd), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trials.Close()) }()
	measures, err := os.OpenFile(filepath.Join(c.Out, s.Name+measuresEnd), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, measures.Close()) }()
	about := About{Store: s.Name, Command: c.Command, Commit: commit(ctx), Began: time.Now().UTC().Truncate(time.Second), Each: c.Each, Seed: c.Seed}
	for i, setup := range s.Setups {
		if !c.needs(s, setup) {
			continue
		}
		if err := c.setup(ctx, s, setup, i == 0, json.NewEncoder(trials), json.NewEncoder(measures)); err != nil {
			return err
		}
	}
	if c.Measures && s.Name == onpg.Name && len(c.Locks) == 0 {
		if _, err := Optimistic(ctx, c.Out); err != nil {
			return err
		}
	}
	about.Took, about.Load = time.Since(about.Began).Round(time.Second), loadAverage()
	return about.write(c.Out)
}

// needs reports whether a design that is wanted may run on a setup.
func (c *Campaign) needs(s *Store, setup string) bool {
	return slices.ContainsFunc(s.all(), func(d *Design) bool { return c.locks(d) && (d.only == "" || d.only == setup) })
}

// locks reports whether a design is wanted. One that is planted must be named.
func (c *Campaign) locks(d *Design) bool {
	return wanted(c.Locks, d.Name) && (!d.planted || len(c.Locks) > 0)
}

func (c *Campaign) setup(ctx context.Context, s *Store, setup string, first bool, trials, measures *json.Encoder) (err error) {
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	stand, err := s.Start(starting, setup)
	cancel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stand.Close()) }()
	for _, d := range s.all() {
		if !c.locks(d) {
			continue
		}
		if c.Measures && (d.only == "" && first || d.only == setup) {
			if err := c.measure(ctx, stand, d, measures); err != nil {
				return err
			}
		}
		for _, f := range Faults() {
			if c.Trials && wanted(c.Faults, f.Name) && d.On(s, stand, f) {
				if err := c.pair(ctx, stand, d, f, trials); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure measures a design. A measure that fails is left out.
func (c *Campaign) measure(ctx context.Context, stand Stand, d *Design, out *json.Encoder) error {
	m, err := Measure(ctx, stand, d)
	if err != nil {
		fmt.Fprintln(c.Log, err)
		return ctx.Err()
	}
	fmt.Fprintf(c.Log, "designs: %s %-18s %v\n", stand.Name(), d.Name, m)
	return out.Encode(m)
}

// pair runs the trials of a design under a fault, and repeats those that do not count, up to so many times.
func (c *Campaign) pair(ctx context.Context, stand Stand, d *Design, f *Fault, out *json.Encoder) error {
	const most = 3
	done, tried := 0, 0
	for round := max(c.First, 1); done < c.Each && tried < most*c.Each && ctx.Err() == nil; round++ {
		began := time.Now()
		rs, err := Round(ctx, stand, d, f, c.Seed, round, min(c.Parallel, c.Each-done))
		if ctx.Err() != nil {
			return ctx.Err() // it shows nothing
		}
		var y tally
		for _, r := range rs {
			y.add(r)
			if err := out.Encode(r); err != nil {
				return err
			}
			if r.Missed != "" {
				fmt.Fprintf(c.Log, "  missed: %s\n", r.Missed)
			}
		}
		fmt.Fprintf(c.Log, "designs: %-9s %-8s %-18s %-16s %2d trials, %s, %s\n", stand.Name(), stand.Setup(), d.Name, f.Name, len(rs), y.cell(), time.Since(began).Round(time.Second/10))
		if err != nil { // its trials do not count
			fmt.Fprintln(c.Log, "  ", err)
		}
		done, tried = done+y.hit, tried+len(rs)
	}
	return ctx.Err()
}
