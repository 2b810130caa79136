package drivertest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/drivertest"
)

// defect is planted into a sound backend. It must turn one case red, the one that
// is there for it.
type defect struct {
	name, finds string
	plant       func(b *badBackend)
}

func defects() []defect { return slices.Concat(badJoins, badViews, badEvents, badSessions, badHolders) }

const defectVar = "FAIRLOCK_DRIVERTEST_DEFECT"

// TestWrapped runs the suite over the wrapper that defects are planted in. It
// must be green without a defect; with one, it is run by the test below.
func TestWrapped(t *testing.T) {
	plant := func(*badBackend) {}
	if name := os.Getenv(defectVar); name != "" {
		i := slices.IndexFunc(defects(), func(d defect) bool { return d.name == name })
		require.GreaterOrEqual(t, i, 0, name)
		plant = defects()[i].plant
	}
	seen := &sync.Map{}
	drivertest.Run(t, memtest.Harness(memory.Options{Tells: true, Ends: true}, func(st *membackend.Store, c *membackend.Client) driver.Backend {
		b := newBadBackend(st, c, seen)
		plant(b)
		return b
	}))
}

func TestSuiteCatchesEveryPlantedDefect(t *testing.T) {
	if os.Getenv(defectVar) != "" {
		return // this process is one with a defect
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			run := "^TestWrapped$/^" + strings.ReplaceAll(d.finds, "/", "$/^") + "$"
			cmd := exec.CommandContext(ctx, self, "-test.run", run, "-test.timeout", "50s")
			cmd.Env = append(os.Environ(), defectVar+"="+d.name)
			out, err := cmd.CombinedOutput()

			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite was green:\n%s", out)
			assert.Contains(t, string(out), "--- FAIL: TestWrapped/"+d.finds, "another case failed")
			assert.NotContains(t, string(out), "test timed out", "a defect must end a case, not hang it")
		})
	}
}
