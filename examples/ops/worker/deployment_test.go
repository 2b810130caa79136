package main

import (
	"flag"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

// probe is a probe of a container.
type probe struct {
	HTTPGet                                         struct{ Path, Port string }
	PeriodSeconds, TimeoutSeconds, FailureThreshold int
}

// deployment is the part of deployment.yaml that the test reads.
type deployment struct {
	Spec struct {
		MinReadySeconds int
		Selector        struct{ MatchLabels map[string]string }
		Strategy        struct {
			RollingUpdate struct{ MaxUnavailable, MaxSurge int }
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				TerminationGracePeriodSeconds int
				Containers                    []struct {
					Args                          []string
					Env                           []struct{ Name, Value string }
					Ports                         []struct{ Name string }
					ReadinessProbe, LivenessProbe probe
					Resources                     struct{ Limits map[string]string }
				}
			}
		}
	}
}

func TestTheDeploymentFitsTheWorker(t *testing.T) {
	text, err := os.ReadFile("../deployment.yaml")
	require.NoError(t, err)
	var d deployment
	require.NoError(t, yaml.Unmarshal(text, &d))
	pod := d.Spec.Template
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	assert.Equal(t, d.Spec.Selector.MatchLabels, pod.Metadata.Labels)

	t.Run("times", func(t *testing.T) {
		const margin, closing, work = session.DefaultTTL / 10, 5 * time.Second, 2 * time.Second
		seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
		assert.Greater(t, seconds(pod.Spec.TerminationGracePeriodSeconds), work+margin+closing+shutdown)
		assert.Greater(t, seconds(d.Spec.MinReadySeconds), session.DefaultTTL-margin)
		assert.Zero(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable)
		assert.Positive(t, d.Spec.Strategy.RollingUpdate.MaxSurge, "a rollout needs one of them")
		live := c.LivenessProbe
		assert.Greater(t, seconds(live.PeriodSeconds*live.FailureThreshold), 2*session.DefaultTTL)
		assert.NotContains(t, c.Resources.Limits, "cpu")
	})
	t.Run("probes", func(t *testing.T) {
		w := start(t, &worker{on: "mem://", lock: "orders/settle", order: time.Millisecond})
		eventually(t, w.address+"/readyz", `"ok": true`)
		for _, p := range []probe{c.ReadinessProbe, c.LivenessProbe} {
			assert.Equal(t, c.Ports[0].Name, p.HTTPGet.Port)
			status, _ := get(t, w.address+p.HTTPGet.Path)
			assert.Equal(t, http.StatusOK, status, p.HTTPGet.Path)
		}
		w.stop()
		require.NoError(t, <-w.ended)
	})
	t.Run("arguments", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), "go", append(append([]string{"run", "."}, c.Args...), "-h")...).CombinedOutput()
		require.NoError(t, err, "%s", out) // -h is the last flag, so all before it were accepted
		assert.NotContains(t, string(out), flag.ErrHelp.Error())
	})
	t.Run("service", func(t *testing.T) {
		require.Equal(t, "FAIRLOCK_ON", c.Env[0].Name)
		here := t.TempDir() // without the files of the secret
		_, err := stores.Open(t.Context(), strings.ReplaceAll(c.Env[0].Value, "/etc/fairlock", here), nil)
		require.ErrorIs(t, err, session.ErrInvalidOptions)
		assert.ErrorIs(t, err, os.ErrNotExist, "everything else is valid")
	})
}
