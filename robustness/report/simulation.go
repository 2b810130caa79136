package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// The lines that the tests of the simulation and of planted bugs print. In the output of
// older runs, planted bugs are called "failpoints" or "planted defects".
var (
	simRuns    = regexp.MustCompile(`(?m)runs (\d+) \((.*)\)$`)
	simWork    = regexp.MustCompile(`(?m)steps (\d+), virtual time (\S+), grants (\d+), holds lost (\d+)$`)
	simFaults  = regexp.MustCompile(`(?m)^\s*faults: (.*)$`)
	simBroken  = regexp.MustCompile(`(?m)^\s*violations: ?(.*)$`)
	simSpeed   = regexp.MustCompile(`(?m)^\s*(\d+) runs/s$`)
	simMutants = regexp.MustCompile(`caught (\d+) of (\d+) (?:planted bugs|failpoints|planted defects)`)
	simCaught  = regexp.MustCompile(`caught by run +(\d+) `)
	planted    = regexp.MustCompile(`(?m)=== RUN +Test\w+Planted(?:Bugs|Defects)/(\S+)$`)
	foundBy    = regexp.MustCompile(`: (\S+) finds it in so many of (\d+) trials: map\[(.*)\]`)
)

// simulated returns the tables of the simulation and of planted bugs.
func (d *Data) simulated() string {
	var sims, mutants, onServers []table.Row
	recipes, faults, broken := counts{}, counts{}, counts{}
	for _, text := range d.outputs {
		row := simulation(text)
		if row != nil {
			sims = append(sims, row)
			recipes.add(simRuns.FindStringSubmatch(text)[2])
			faults.add(firstMatch(simFaults, text))
			broken.add(firstMatch(simBroken, text))
		}
		mutants = append(mutants, mutation(text)...)
		onServers = append(onServers, plantedOnServers(text)...)
	}
	part := func(title string, head table.Row, rows []table.Row) string {
		if len(rows) == 0 {
			return title + " " + notRun + "."
		}
		return title + "\n\n" + markdown(head, rows...)
	}
	parts := []string{part("All recipes on simulated services, clocks and networks (`make sim`):",
		table.Row{"runs", "steps", "virtual time", "grants", "holds lost", "runs/s"}, sims)}
	if len(sims) > 0 {
		parts = append(parts, fmt.Sprintf("Violations: %v. Runs of: %v. Faults: %v.", broken, recipes, faults))
	}
	return strings.Join(append(parts,
		part("Planted bugs that the simulation found (`make mutants`):",
			table.Row{"planted", "found", "most runs until one was found"}, mutants),
		part("Planted bugs that aimed faults found on real servers (`go -C robustness test -v -run FindPlantedBugs . -mutants`):",
			table.Row{"planted", "fault", "trials", "trials with a violation, by property"}, onServers)), "\n\n")
}

// counts has a count for each name.
type counts map[string]int

// add adds the counts of a text such as "this 3, that one 4".
func (c counts) add(text string) {
	for part := range strings.SplitSeq(text, ", ") {
		at := strings.LastIndexByte(part, ' ')
		if n, err := strconv.Atoi(part[at+1:]); err == nil && at > 0 {
			c[part[:at]] += n
		}
	}
}

// String returns a text that add can read, or "none".
func (c counts) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprintf("%s %d", what, c[what]))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// simulation reads one run of itest/sim's TestRecipes; it returns nil if the text is none.
func simulation(text string) table.Row {
	runs, work := simRuns.FindStringSubmatch(text), simWork.FindStringSubmatch(text)
	if runs == nil || work == nil {
		return nil
	}
	return table.Row{runs[1], work[1], work[2], work[3], work[4], firstMatch(simSpeed, text)}
}

// mutation reads one run of itest/sim's TestMutants.
func mutation(text string) []table.Row {
	score := simMutants.FindStringSubmatch(text)
	if score == nil {
		return nil
	}
	var within []int
	for _, m := range simCaught.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			within = append(within, n)
		}
	}
	if len(within) == 0 {
		return []table.Row{{score[2], score[1], ""}}
	}
	return []table.Row{{score[2], score[1], slices.Max(within)}}
}

// plantedOnServers reads one run of the test of planted bugs on real servers: a subtest
// for each.
func plantedOnServers(text string) []table.Row {
	var rows []table.Row
	starts := planted.FindAllStringSubmatchIndex(text, -1)
	for i, at := range starts {
		until := len(text)
		if i+1 < len(starts) {
			until = starts[i+1][0]
		}
		row := table.Row{text[at[2]:at[3]], "", "", "did not finish"}
		m := foundBy.FindStringSubmatch(text[at[1]:until])
		if m != nil {
			row = table.Row{text[at[2]:at[3]], m[1], m[2], strings.ReplaceAll(m[3], ":", " in ")}
		}
		rows = append(rows, row)
	}
	return rows
}

func firstMatch(re *regexp.Regexp, text string) string {
	m := re.FindStringSubmatch(text)
	if m != nil {
		return m[1]
	}
	return ""
}
