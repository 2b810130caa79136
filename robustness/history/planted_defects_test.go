package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
)

// TestPlantedDefectsAreFound plants each defect in histories of each recipe that can
// have it. The oracles that must find it must do so in all of them.
func TestPlantedDefectsAreFound(t *testing.T) {
	const seeds = 8
	oracles := []string{"model", "sweep", "replay"}
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "defect\tbreaks\tplanted\t%s\t\n", strings.Join(oracles, "\t"))
	for _, p := range defects() {
		planted, found := 0, map[string]int{}
		for _, queue := range queues() {
			if !slices.Contains(p.recipes, queue.Recipe) {
				continue
			}
			for seed := range uint64(seeds) {
				r := simulate(queue, seed, options{clients: 8, attempts: 120, faultRate: 0.2})
				if !p.do(rand.New(rand.NewPCG(seed, 1)), &r) {
					continue
				}
				planted++
				for oracle, violations := range verdicts(r) {
					right := slices.ContainsFunc(violations, func(v history.Violation) bool {
						return slices.Contains(strings.Fields(p.as), v.Property)
					})
					if right {
						found[oracle]++
					} else if slices.Contains(p.finds, oracle) {
						assert.Fail(t, "not found", "%s in a %s by the %s, seed %d: %v", p.name, queue.Name, oracle, seed, violations)
					}
				}
			}
		}
		require.GreaterOrEqual(t, planted, seeds/2, "%s: histories have no place for it", p.name)
		fmt.Fprintf(out, "%s\t%s\t%d", p.name, p.as, planted)
		for _, oracle := range oracles {
			mark := ""
			if slices.Contains(p.finds, oracle) {
				mark = " *"
			}
			fmt.Fprintf(out, "\t%d%s", found[oracle], mark)
		}
		fmt.Fprint(out, "\t\n")
	}
	require.NoError(t, out.Flush())
	t.Logf("found by (* must be):\n%s", table.String())
}
