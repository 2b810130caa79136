package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/telemetry"
)

// The variables that Grafana puts into a query.
const (
	chosen = `job=~"$job", instance=~"$instance"`
	within = "$__rate_interval"
)

// Panel is a graph of the dashboard.
type Panel struct {
	Title       string
	Description string
	Unit        string // as Grafana names it
	Metric      telemetry.ID
	Stack       bool // the graphs are parts of a whole
	Queries     []Query
}

// Query is a query of a panel, which may return several series.
type Query struct {
	Expr   string
	Legend string
}

// Panels returns the graphs of the dashboard: for each metric those that fit its kind, in
// the order in which an operator reads them.
func Panels() []Panel {
	var all []Panel
	order := []telemetry.ID{
		telemetry.Waiters, telemetry.Holds, telemetry.AcquireDuration, telemetry.HoldDuration, telemetry.HandoffDuration,
		telemetry.Sessions, telemetry.SessionSlack, telemetry.RenewalSlack, telemetry.SessionsLost, telemetry.HoldsLost, telemetry.Rejoins,
	}
	metrics := telemetry.Metrics()
	for _, m := range metrics {
		if !slices.Contains(order, m.ID) { // a new metric comes last
			order = append(order, m.ID)
		}
	}
	for _, id := range order {
		all = append(all, panels(metrics[id])...)
	}
	return all
}

// panels returns the graphs of a metric.
func panels(m telemetry.Metric) []Panel {
	p := Panel{Title: title(m.Name), Description: m.Help, Metric: m.ID, Unit: "short"}
	if m.Unit == "s" {
		p.Unit = "s"
	}
	by, selected := "instance", chosen
	if slices.Contains(m.Attributes, telemetry.LockName) {
		by, selected = telemetry.LockName.Label(), chosen+`, lock=~"$lock"`
	}
	legend := "{{" + by + "}}"
	switch m.Kind {
	case telemetry.UpDownCounter:
		p.Stack = true
		p.Queries = []Query{{fmt.Sprintf("sum by (%s) (%s)", by, with(m.Prometheus, selected)), legend}}
	case telemetry.Gauge:
		p.Queries = []Query{{fmt.Sprintf("min by (%s) (%s)", by, with(m.Prometheus, selected)), legend}}
	case telemetry.Counter:
		if slices.Contains(m.Attributes, telemetry.Reason) {
			by, legend = by+", "+telemetry.Reason.Label(), legend+", {{"+telemetry.Reason.Label()+"}}"
		}
		p.Stack = true
		p.Queries = []Query{{risen(m.Prometheus, selected, within, by) + " > 0", legend}}
	case telemetry.Histogram:
		return histogram(p, m, by, selected)
	}
	return []Panel{p}
}

// histogram returns the graphs of a histogram: quantiles of its values, and how many there
// are, by how it ended.
func histogram(p Panel, m telemetry.Metric, by, selected string) []Panel {
	for _, q := range []struct{ q, name string }{{"0.5", "half"}, {"0.99", "99 %"}} {
		if m.ID == telemetry.RenewalSlack { // the low ones are bad
			q.q, q.name = map[string]string{"0.5": "0.5", "0.99": "0.01"}[q.q], map[string]string{"half": "half", "99 %": "1 %"}[q.name]
		}
		p.Queries = append(p.Queries, Query{quantile(q.q, m.ID, selected, within, by), q.name + " {{" + by + "}}"})
	}
	all := []Panel{p}
	for _, a := range []telemetry.Attribute{telemetry.Outcome, telemetry.HoldEnd} {
		if slices.Contains(m.Attributes, a) {
			all = append(all, Panel{
				Title: title(m.Name) + ": how many, by " + a.Label(), Metric: m.ID, Unit: "reqps", Stack: true,
				Description: fmt.Sprintf("Values of %s each second, by %s.", m.Name, a.Label()),
				Queries:     []Query{{fmt.Sprintf("sum by (%s) (rate(%s[%s]))", a.Label(), with(m.Prometheus+"_count", selected), within), "{{" + a.Label() + "}}"}},
			})
		}
	}
	return all
}

// title returns the title of a metric's graph: "Acquire duration".
func title(name string) string {
	words := strings.ReplaceAll(strings.TrimPrefix(name, "fairlock."), ".", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// object is an object of JSON.
type object = map[string]any

// dashboard returns the dashboard in Grafana's JSON.
func dashboard() ([]byte, error) {
	const width, height = 12, 8
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var graphs []object
	for i, p := range Panels() {
		var targets []object
		for j, q := range p.Queries {
			targets = append(targets, object{"datasource": source, "expr": q.Expr, "legendFormat": q.Legend, "refId": string(rune('A' + j))})
		}
		stacking := object{"mode": "none"}
		if p.Stack {
			stacking["mode"] = "normal"
		}
		graphs = append(graphs, object{
			"id": i + 1, "type": "timeseries", "title": p.Title, "description": p.Description, "datasource": source,
			"gridPos":     object{"x": i % 2 * width, "y": i / 2 * height, "w": width, "h": height},
			"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": object{"stacking": stacking, "fillOpacity": 10}}, "overrides": []any{}},
			"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
			"targets":     targets,
		})
	}
	choice := func(name, metric, label string) object {
		return object{
			"name": name, "type": "query", "datasource": source, "query": fmt.Sprintf("label_values(%s, %s)", metric, label),
			"refresh": 2, "multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		}
	}
	board := object{
		"uid": "fairlock", "title": "Fairlock", "tags": []string{"fairlock"}, "schemaVersion": 39, "editable": true,
		"description": "Generated from the metrics of package telemetry.",
		"refresh":     "30s", "time": object{"from": "now-1h", "to": "now"}, "panels": graphs,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus"},
			choice("job", metric(telemetry.Sessions), "job"),
			choice("instance", metric(telemetry.Sessions)+`{job=~"$job"}`, "instance"),
			choice("lock", with(count(telemetry.AcquireDuration), chosen), "lock"),
		}},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(board); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
