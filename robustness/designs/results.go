package designs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The names of files in a folder of results, after the name of the store.
const (
	trialsEnd   = "-trials.jsonl"   // a Result per line
	measuresEnd = "-measures.jsonl" // a Measured per line
	aboutEnd    = "-about.json"     // an About
)

// About describes a run.
type About struct {
	Store   string
	Command string
	Commit  string
	Began   time.Time
	Took    time.Duration
	Load    string // of the machine at the end
	Each    int
	Seed    uint64
	Go      string
	CPUs    int
}

func (a *About) write(folder string) error {
	a.Go, a.CPUs = runtime.Version(), runtime.NumCPU()
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, a.Store+aboutEnd), append(text, '\n'), 0o644)
}

// commit returns the commit that is checked out here, or "unknown".
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// loadAverage returns the load averages of the machine, or "unknown".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// Data is all results of a folder.
type Data struct {
	trials   []*Result
	measures []*Measured
	versions []*Versioned
	abouts   []*About
}

// Read reads a folder of results.
func Read(folder string) (*Data, error) {
	d := &Data{}
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		switch {
		case err != nil:
		case strings.HasSuffix(f.Name(), trialsEnd):
			d.trials, err = lines(d.trials, text)
		case strings.HasSuffix(f.Name(), measuresEnd):
			d.measures, err = lines(d.measures, text)
		case strings.HasSuffix(f.Name(), versionsEnd):
			d.versions, err = lines(d.versions, text)
		case strings.HasSuffix(f.Name(), aboutEnd):
			a := &About{}
			err = json.Unmarshal(text, a)
			d.abouts = append(d.abouts, a)
		}
		if err != nil {
			return nil, fmt.Errorf("designs: %s: %w", f.Name(), err)
		}
	}
	if len(d.trials) == 0 {
		return nil, errors.New("designs: there are no results in " + folder)
	}
	return d, nil
}

// lines adds a value of each line of JSON.
func lines[T any](all []*T, text []byte) ([]*T, error) {
	for line := range bytes.Lines(text) {
		v := new(T)
		if err := json.Unmarshal(line, v); err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// tally adds up the trials of a design under a fault.
type tally struct {
	hit, missed, bad          int
	two, third, never, orphan int // trials
	lost, unfenced            int // trials in which an update was lost, or would have been without tokens
	seeds                     []uint64
	firstBad                  *Result // the first one with a violation
	grants                    []time.Duration
	tokens                    bool
}

func (y *tally) add(r *Result) {
	if r.Missed != "" {
		y.missed++
		return
	}
	y.hit++
	y.tokens = y.tokens || r.Tokens
	if r.Violated() {
		y.bad++
		if y.firstBad == nil {
			y.firstBad = r
		}
	}
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	count(&y.two, r.Two != "")
	count(&y.third, r.Third != "")
	count(&y.never, r.Never != "")
	count(&y.orphan, r.Orphan != "")
	count(&y.lost, r.Lost > 0)
	count(&y.unfenced, r.Unfenced > 0)
	if r.FaultToGrant > 0 {
		y.grants = append(y.grants, r.FaultToGrant)
	}
	if !slices.Contains(y.seeds, r.Seed) {
		y.seeds = append(y.seeds, r.Seed)
	}
}

// cell returns how many trials had a violation, and what was lost.
func (y *tally) cell() string {
	if y.hit == 0 {
		return "not tried"
	}
	text := fmt.Sprintf("%d of %d", y.bad, y.hit)
	if y.bad == 0 {
		return text
	}
	var what []string
	for _, w := range []struct {
		n    int
		text string
	}{{y.two, "two at once"}, {y.third, "a third too"}, {y.lost, "update lost"}, {y.never, "never granted"}, {y.orphan, "orphan"}} {
		switch {
		case w.n == y.bad:
			what = append(what, w.text)
		case w.n > 0:
			what = append(what, fmt.Sprintf("%s (%d)", w.text, w.n))
		}
	}
	return text + ": " + strings.Join(what, ", ")
}
