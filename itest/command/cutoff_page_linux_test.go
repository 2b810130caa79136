package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// resultTables returns the results of all trials of a commit, as Markdown.
func resultTables(all map[string][]*outcome, of string, began time.Time) string {
	var b strings.Builder
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown")
	}
	fmt.Fprintf(&b, "Commit %s, %s, %s, %d CPUs, load at the end %s, up to %s trials at a time, took %s.\n", of, began.UTC().Format("2006-01-02 15:04 UTC"),
		runtime.Version(), runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:1], " "), flag.Lookup("test.parallel").Value, time.Since(began).Round(time.Second))
	b.WriteString(`
| service | fault | trials | two at once | still dying | SIGTERM after | dead after | next started after | dead for at least | exit code 79 |
| --- | --- | ---:| ---:| ---:| --- | --- | --- | --- | ---:|
`)
	again := 0
	for _, service := range slices.Sorted(maps.Keys(all)) {
		for _, o := range all[service] {
			again += o.again
		}
		for _, f := range faults() {
			of := slices.DeleteFunc(slices.Clone(all[service]), func(o *outcome) bool { return o.name != f.name || !o.over })
			b.WriteString(row(service, f, of))
		}
	}
	fmt.Fprintf(&b, "\nTrials were repeated %d times.\n", again)
	return b.String()
}

// row returns the results of one fault on one service.
func row(service string, f faultCase, of []*outcome) string {
	overlaps, dying, lost := 0, 0, 0
	var stop, dead, next, gap []time.Duration
	for _, o := range of {
		if o.overlaps() {
			overlaps++
		}
		if o.found == "dying" {
			dying++
		}
		if o.code == 79 {
			lost++
		}
		if o.stop != 0 {
			stop = append(stop, o.stop)
		}
		dead, next, gap = append(dead, o.dead), append(next, o.next), append(gap, o.next-o.dead)
	}
	exits := fmt.Sprintf("%d of %d", lost, len(of))
	if f.killed || f.control {
		exits = ""
	}
	died, least := spread(dead), ""
	if len(gap) > 0 {
		least = inWords(slices.Min(gap))
	}
	if f.control { // the command ends with the trial
		died, least = "", ""
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %s | %s | %s | %s | %s |\n", service, f.name, len(of), overlaps, dying, spread(stop), died, spread(next), least, exits)
}

// spread returns the minimum, the median and the maximum of times.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprintf("%s, %s, %s", inWords(all[0]), inWords(all[len(all)/2]), inWords(all[len(all)-1]))
}

func inWords(d time.Duration) string {
	if max(d, -d) < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// commit returns the commit that is checked out here.
func commit() string {
	out, err := exec.CommandContext(context.Background(), "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// intoPage writes tables between the marks of a page.
func intoPage(page, tables string) error {
	const begins, ends = "<!-- cutoff:begin -->\n", "<!-- cutoff:end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begins)
	_, after, too := strings.Cut(rest, ends)
	if !ok || !too {
		return errors.New(page + " has no marks for the tables")
	}
	return os.WriteFile(page, []byte(before+begins+"\n"+tables+"\n"+ends+after), 0o600)
}

func TestTheTableShowsTheResultsOfTheTrials(t *testing.T) {
	const ms = time.Millisecond
	f := faultCase{name: "cut"}
	of := []*outcome{
		{stop: 900 * ms, dead: 1900 * ms, next: 2 * time.Second, found: "alone", code: 79},
		{stop: 700 * ms, dead: 1700 * ms, next: 3 * time.Second, found: "dying", code: 79},
		{stop: 800 * ms, dead: 1800 * ms, next: 3 * time.Second, found: "overlap", code: 79},
		{dead: 2100 * ms, next: 2 * time.Second, found: "alone", code: 3},
	}

	assert.Equal(t, "| etcd | cut | 4 | 2 | 1 | 700 ms, 800 ms, 900 ms | 1.70 s, 1.90 s, 2.10 s | 2.00 s, 3.00 s, 3.00 s | -100 ms | 3 of 4 |\n", row("etcd", f, of))
	assert.Equal(t, "| etcd | cut | 0 | 0 | 0 |  |  |  |  | 0 of 0 |\n", row("etcd", f, nil))
}
