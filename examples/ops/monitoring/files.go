//go:generate go run ./generate

package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// generated is the first line of each file that allows comments.
const generated = "# Generated from the metrics of package telemetry by go generate ./monitoring. Do not edit.\n"

// Files returns the text of each generated file, by its path below examples/ops.
func Files() (map[string][]byte, error) {
	board, err := dashboard()
	if err != nil {
		return nil, fmt.Errorf("monitoring: dashboard: %w", err)
	}
	return map[string][]byte{"alerts.yaml": rules(Alerts()), "dashboard.json": board}, nil
}

// rules returns a file of rules for Prometheus.
func rules(alerts []Alert) []byte {
	var b bytes.Buffer
	b.WriteString(generated + "groups:\n  - name: fairlock\n    rules:\n")
	for _, a := range alerts {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: |\n", a.Name)
		for line := range strings.Lines(a.Expr + "\n") {
			b.WriteString("          " + line)
		}
		if a.For != "" {
			fmt.Fprintf(&b, "        for: %s\n", a.For)
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n", a.Severity)
		fmt.Fprintf(&b, "        annotations:\n          summary: %s\n          description: %s\n          runbook_url: %s\n",
			quoted(a.Summary), quoted(a.Description), quoted(a.Runbook()))
	}
	return b.Bytes()
}

// quoted returns a text as YAML, which JSON is.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string can be encoded
	}
	return strings.TrimSpace(b.String())
}
