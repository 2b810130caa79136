package monitoring_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/examples/ops/monitoring"
	"github.com/fairlock/fairlock/telemetry"
)

// tool returns the path of a program of Debian's package prometheus. A missing one is a
// failure: make test-all installs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "prometheus", "usr", "bin", name))
	require.NoError(t, err)
	require.FileExists(t, path, "run make prometheus, or put Prometheus' programs into the PATH")
	return path
}

// promtool runs promtool in the folder of the generated files.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestTheGeneratedFilesAreNew(t *testing.T) {
	files, err := monitoring.Files()
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s is old: run go generate ./monitoring in examples/ops", name)
	}
}

// ruleTests returns the tests in alerts_test.yaml by their names, and the text before them.
func ruleTests(t *testing.T) (header string, all map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../alerts_test.yaml")
	require.NoError(t, err)
	const begin = "\n  - name: "
	parts := strings.Split(string(text), begin)
	all = map[string]string{}
	for _, part := range parts[1:] {
		name, _, _ := strings.Cut(part, "\n")
		all[name] = begin + part
	}
	return parts[0], all
}

// calm is the name of the test in which no rule fires.
const calm = "a healthy system"

func TestEachRuleFiresAndIsSilentInAHealthySystem(t *testing.T) {
	_, all := ruleTests(t)
	for _, a := range monitoring.Alerts() {
		assert.Contains(t, all[a.Name+" fires"], `ALERTS{alertname="`+a.Name+`",alertstate="firing"`)
	}
	require.Len(t, all, len(monitoring.Alerts())+1)
	for _, m := range telemetry.Metrics() {
		assert.Contains(t, all[calm], m.Prometheus)
	}

	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

// The test of each rule fails if the rule never fires, and that of the healthy system if
// rules always do.
func TestBrokenRulesFailTheirTests(t *testing.T) {
	rules, err := os.ReadFile("../alerts.yaml")
	require.NoError(t, err)
	header, all := ruleTests(t)
	expr := regexp.MustCompile(`(?m)expr: \|\n((?: {10}.*\n)+)`)
	found := expr.FindAllSubmatchIndex(rules, -1)
	require.Len(t, found, len(monitoring.Alerts()))
	fails := func(t *testing.T, rules, test string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(rules), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts_test.yaml"), []byte(header+all[test]), 0o600))
		out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "test", "rules", filepath.Join(dir, "alerts_test.yaml")).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "FAILED")
	}
	for i, a := range monitoring.Alerts() {
		t.Run(a.Name, func(t *testing.T) {
			fails(t, string(rules[:found[i][2]])+"          vector(1) > 2\n"+string(rules[found[i][3]:]), a.Name+" fires")
		})
	}
	t.Run(calm, func(t *testing.T) {
		fails(t, string(expr.ReplaceAll(rules, []byte("expr: vector(1)\n"))), calm)
	})
}

// board is the part of the dashboard that the tests read.
type board struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, RefID string }
	}
}

func TestTheDashboardShowsEachMetricInAPlaceOfItsOwn(t *testing.T) {
	files, err := monitoring.Files()
	require.NoError(t, err)
	var b board
	require.NoError(t, json.Unmarshal(files["dashboard.json"], &b))
	panels := monitoring.Panels()
	require.Len(t, b.Panels, len(panels))
	shown, places, titles := map[telemetry.ID]bool{}, map[[2]int]bool{}, map[string]bool{}
	for i, p := range b.Panels {
		shown[panels[i].Metric] = true
		places[[2]int{p.GridPos.X, p.GridPos.Y}] = true
		titles[p.Title] = true
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
		assert.NotEmpty(t, p.Targets)
		for _, q := range p.Targets {
			assert.Contains(t, q.Expr, telemetry.Metrics()[panels[i].Metric].Prometheus)
		}
	}
	assert.Len(t, places, len(panels))
	assert.Len(t, titles, len(panels))
	for _, m := range telemetry.Metrics() {
		assert.True(t, shown[m.ID], m.Name)
	}
}

func TestRulesUseOnlyMetricsThatThereAre(t *testing.T) {
	known := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		known[m.Prometheus] = true
		if m.Kind == telemetry.Histogram {
			known[m.Prometheus+"_bucket"], known[m.Prometheus+"_count"] = true, true
		}
	}
	used := map[string]bool{}
	for _, a := range monitoring.Alerts() {
		for _, name := range regexp.MustCompile(`fairlock_\w+`).FindAllString(a.Expr, -1) {
			used[name] = true
			assert.True(t, known[name], "%s: %s", a.Name, name)
		}
	}
	assert.Greater(t, len(slices.Collect(maps.Keys(used))), 8)
}

// sections returns the headings of the third order of docs/monitoring.md that name alerts,
// with their texts.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/monitoring.md")
	require.NoError(t, err)
	all := map[string]string{}
	for _, part := range regexp.MustCompile(`(?m)^##+ `).Split(string(text), -1) {
		heading, body, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(heading, "Fairlock") {
			all[heading] = body
		}
	}
	return all
}

func TestEachAlertHasASectionAndEachSectionAnAlert(t *testing.T) {
	all := sections(t)
	for _, a := range monitoring.Alerts() {
		body, found := all[a.Name]
		if assert.True(t, found, "docs/monitoring.md has no section %s", a.Name) {
			assert.Contains(t, body, "**Meaning:**", a.Name)
			assert.Contains(t, body, "**Do:**", a.Name)
		}
		assert.True(t, strings.HasSuffix(a.Runbook(), "docs/monitoring.md#"+strings.ToLower(a.Name)), a.Runbook())
		assert.Contains(t, []string{"critical", "warning"}, a.Severity)
		delete(all, a.Name)
	}
	assert.Empty(t, all, "sections without an alert")
}
