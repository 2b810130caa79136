package observed

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/tier"
)

// What the models assert, by a part of the text of the assertion.
const (
	ended   = "trust==0" // lease.pml: the owner of a session that has been ended does not trust it
	alone   = "holds[i]" // no client holds while another one holds, or trusts a session of another life
	useful  = "0"        // replicas.pml with INVAIN: a full count is not refused
	rising  = "last["    // replicas.pml with TOKENS: a token is greater than all before
	reached = "0"        // with REACH: what fails if the model gets where a violation is possible
)

// searches are the models with their flags, and which assertion fails; "" if none does.
var searches = []struct{ model, flags, finds string }{
	{"lease", "", ""},
	{"lease", "MARGIN=0", ""},
	{"lease", "DRIFT", ""},
	{"lease", "REACH", reached},
	{"lease", "FROMSEND", ended},
	{"lease", "NOCOMPARE", ended},
	{"lease", "KEEPAGE", ended},
	{"lease", "DRIFT MARGIN=0", ended},

	{"primary", "", ""},
	{"primary", "SYNC UNFENCED", ""},
	{"primary", "EMPTIED", ""},
	{"primary", "CLIENTS=3", ""},
	{"primary", "CLIENTS=3 SYNC UNFENCED", ""},
	{"primary", "REACH", reached},
	{"primary", "NOWAIT", alone},
	{"primary", "EMPTIED NOTAG", alone},
	{"primary", "UNFENCED", alone},
	{"primary", "ZOMBIE", alone},
	{"primary", "ROLLBACK", alone},
	{"primary", "SYNC UNFENCED CANCEL", alone},
	{"primary", "SYNC UNFENCED DEGRADE", alone},
	{"primary", "SYNC UNFENCED REBUILD", alone},

	{"replicas", "SMALL LIVES=3", ""}, // 28 million states, 2.8 GB
	{"replicas", "DRIFT TTL=3 MARGIN=1", ""},
	{"replicas", "", ""},
	{"replicas", "INVAIN", ""},
	{"replicas", "EMPTY", ""},
	{"replicas", "LIVES=1 FLUSHES=2", ""},
	{"replicas", "SMALL STAY FLUSHES=1", ""},
	{"replicas", "TOKENS STAY AHEAD=8", ""},
	{"replicas", "TOKENS STAY AHEAD=1 NOMOVE", ""}, // clocks that differ by a quarter of a tick need no move
	{"replicas", "TOKENS STAY TTL=3 MARGIN=1 TICKS=4 AHEAD=8", ""},
	{"replicas", "COUNTS", ""},
	{"replicas", "CLAIMOTHERACK", ""},
	{"replicas", "REACH=2", reached},
	{"replicas", "SMALL LIVES=3 REACH=3", reached},
	{"replicas", "FIRSTSIGHT", alone},
	{"replicas", "NOACK", alone},
	{"replicas", "OTHERACK", alone},
	{"replicas", "CLAIMNOACK", alone},
	{"replicas", "LIVES=3 NOCOMPARE", alone},
	{"replicas", "LIVES=1 FLUSHES=2 NOTAG", alone},
	{"replicas", "TAKEOVER", alone},
	{"replicas", "OWNTAG INVAIN", useful},
	{"replicas", "LIVES=1 FLUSHES=1 EMPTYISNEW", alone},
	{"replicas", "EMPTY EMPTYISNEW", alone},
	{"replicas", "GOESBACK", alone},
	{"replicas", "SMALL STAY NODES=4", alone},
	{"replicas", "DRIFT", alone},
	{"replicas", "TOKENS STAY AHEAD=5 NOMOVE", rising},
	{"replicas", "TOKENS STAY TTL=3 MARGIN=1 TICKS=4 AHEAD=8 NOMOVE", rising},
	{"replicas", "COUNTS SUMTWICE", alone},
	{"replicas", "COUNTS SUMANYHOW", alone},
}

// TestModels searches all states of the models: first spin makes a program of a model, then that
// program searches. The states are kept whole. With hash compaction (HC4) one or two in a hundred
// were missed here.
//
// To look at the steps to an error, go to an empty folder and run there, with -D in front of each flag:
//
//	spin -a FLAGS replicas.pml && gcc -O2 -w -DSAFETY -DNOFAIR -o pan pan.c && ./pan -m2000000
//	spin -t -p FLAGS replicas.pml
//
// With -DBFS for gcc the search finds the shortest way to it.
func TestModels(t *testing.T) {
	tier.Seldom(t)
	for _, program := range []string{"spin", "gcc"} {
		_, err := exec.LookPath(program)
		require.NoError(t, err, "install Debian's package %s", program)
	}
	for _, s := range searches {
		t.Run(strings.TrimSpace(s.model+" "+s.flags), func(t *testing.T) {
			t.Parallel()
			began := time.Now()

			states, wrong := search(t, s.model, s.flags)

			t.Logf("%s states in %s: %s", states, time.Since(began).Round(100*time.Millisecond), wrong)
			if s.finds == "" {
				assert.Empty(t, wrong)
			} else {
				assert.Contains(t, wrong, s.finds)
			}
		})
	}
}

var (
	storedLine = regexp.MustCompile(`(?m)^ *(\d+) states, stored`)
	failedLine = regexp.MustCompile(`(?m)^pan:1: assertion violated (.*) \(at depth \d+\)$`)
	errorsLine = regexp.MustCompile(`(?m)errors: ([01])$`)
)

// search searches a model, and returns how many states it has stored, and the assertion that fails.
func search(t *testing.T, model, flags string) (states, wrong string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("models", model+".pml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.pml"), text, 0o600))
	run := func(program string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s\n%s", program, args, out)
		return string(out)
	}
	spin := []string{"-a"}
	for flag := range strings.FieldsSeq(flags) {
		spin = append(spin, "-D"+flag)
	}
	run("spin", append(spin, "model.pml")...)
	run("gcc", "-O2", "-w", "-DSAFETY", "-DNOFAIR", "-o", "pan", "pan.c")
	out := run(filepath.Join(dir, "pan"), "-m2000000")

	stored, failed, errs := storedLine.FindStringSubmatch(out), failedLine.FindStringSubmatch(out), errorsLine.FindStringSubmatch(out)
	require.NotNil(t, stored, out)
	require.NotNil(t, errs, out)
	require.NotContains(t, out, "max search depth too small")
	if errs[1] == "0" {
		require.NotContains(t, out, "not completed", out)
		return stored[1], ""
	}
	require.NotNil(t, failed, out)
	return stored[1], failed[1]
}
