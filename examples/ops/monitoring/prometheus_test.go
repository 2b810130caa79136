package monitoring_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/examples/ops/monitoring"
)

// server is a Prometheus that knows the samples of a run.
type server struct {
	url   string
	began time.Time // of the run
}

// serve starts a Prometheus on samples.
func serve(t *testing.T, began time.Time, samples []byte) *server {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"samples": samples, "prometheus.yaml": []byte("global: {}\n")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	data := filepath.Join(dir, "data")
	promtool(t, "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "samples"), data)
	cmd := exec.CommandContext(t.Context(), tool(t, "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path", data, "--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	var seen strings.Builder
	address, ready := "", false
	for lines := bufio.NewScanner(log); !ready && lines.Scan(); {
		seen.WriteString(lines.Text() + "\n")
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			address = found[1]
		}
		ready = strings.Contains(lines.Text(), "Server is ready to receive web requests")
	}
	require.True(t, ready && address != "", "%s", &seen)
	return &server{url: "http://" + address, began: began}
}

// series is a series of an answer.
type series struct {
	Metric map[string]string
	Values [][2]any // time and text
}

// between evaluates an expression every 15 seconds of a part of the run.
func (p *server) between(t *testing.T, expr string, from, to time.Duration) []series {
	t.Helper()
	at := func(d time.Duration) string { return strconv.FormatInt(p.began.Add(d).Unix(), 10) }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/query_range",
		strings.NewReader(url.Values{"query": {expr}, "start": {at(from)}, "end": {at(to)}, "step": {"15"}}.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []series }
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", expr, answer.Error)
	return answer.Data.Result
}

// numbers counts the values that are numbers.
func numbers(all []series) int {
	n := 0
	for _, s := range all {
		for _, v := range s.Values {
			if v[1] != "NaN" {
				n++
			}
		}
	}
	return n
}

// chosen puts values into a query as Grafana does.
func chosen(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$lock", ".*").Replace(expr)
}

func TestAgainstARealRun(t *testing.T) {
	began, samples := run(t)
	p := serve(t, began, samples)
	t.Run("each query of the dashboard returns data", func(t *testing.T) {
		for _, panel := range monitoring.Panels() {
			for _, q := range panel.Queries {
				found := p.between(t, chosen(q.Expr), 0, over)
				assert.Positive(t, numbers(found), "%s: %s", panel.Title, q.Expr)
				for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.Legend, -1) {
					for _, s := range found {
						assert.Contains(t, s.Metric, label[1], "%s: %s", panel.Title, q.Legend)
					}
				}
			}
		}
	})
	t.Run("each series of a rule has data", func(t *testing.T) {
		for _, a := range monitoring.Alerts() {
			found := regexp.MustCompile(`fairlock_\w+({[^}]*})?`).FindAllString(a.Expr, -1)
			assert.NotEmpty(t, found)
			for _, selector := range found {
				assert.Positive(t, numbers(p.between(t, selector, 0, over)), "%s: %s", a.Name, selector)
			}
		}
	})
	t.Run("rules are silent while all is well", func(t *testing.T) {
		for _, a := range monitoring.Alerts() {
			assert.Empty(t, p.between(t, a.Expr, 0, healthy), a.Name)
		}
	})
	t.Run("rules see the trouble", func(t *testing.T) {
		for _, a := range monitoring.Alerts() {
			n := numbers(p.between(t, a.Expr, healthy, over))
			t.Logf("%s: %d of %d times", a.Name, n, int((over-healthy)/scrapes))
			switch a.Name {
			case "FairlockHoldsLost", "FairlockSessionsLost", "FairlockNoSession", "FairlockRejoins", "FairlockGiveUps", "FairlockRefused", "FairlockReleasesPending":
				assert.Positive(t, n, a.Name)
			}
		}
	})
}
