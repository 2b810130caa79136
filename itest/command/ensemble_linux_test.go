package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// In an ensemble whose tick is the default, 2 s, the first renewal comes 7.5 s after the
// opening, and then one every 2.5 s. The commands run for three of them.
func TestAHealthyEnsembleStopsNoCommand(t *testing.T) {
	t.Parallel()
	url := "zk://" + strings.Join(zktest.New(t, &zktest.Options{Members: 3, Tick: 2 * time.Second}).Endpoints(), ",")
	for attempt, inTime := 0, false; !inTime; attempt++ {
		require.Less(t, attempt, 10, "a renewal was late each time")
		short, usual := beginRenewed(t, url, 12*time.Second), beginRenewed(t, url, session.DefaultTTL)
		inTime = short.inTime(t)
		inTime = usual.inTime(t) && inTime
	}

	got := execute(t, url, "run", "--grace", "3s", "usual", "--", "true")
	assert.Equal(t, result{code: 64, stderr: "fairlock: --grace 3s is too long for a session of 15s, which needs time to be renewed: want at most 2.9s, or a longer --ttl\nRun 'fairlock run --help' for usage.\n"}, got)
}

// renewed is a command that runs for some renewals, and writes its states into a file.
type renewed struct {
	*running
	ttl    time.Duration
	states string
}

func beginRenewed(t *testing.T, url string, ttl time.Duration) *renewed {
	t.Helper()
	r := &renewed{ttl: ttl, states: filepath.Join(t.TempDir(), "states")}
	r.running = prepared(t, url, "run", "--ttl", ttl.String(), "--status-fd", "3", ttl.String(), "--", "sleep", "14")
	file, err := os.Create(r.states)
	require.NoError(t, err)
	r.ExtraFiles = []*os.File{file}
	r.start(t)
	return r
}

// inTime reports whether all renewals were in time, and requires that the command ran to its
// end then, without a warning. On a machine that stands still a renewal is late: by a quarter
// of the time that is left when it is due before the command warns, and by half of it before
// it stops.
func (r *renewed) inTime(t *testing.T) bool {
	t.Helper()
	code := r.code(t)
	text, err := os.ReadFile(r.states)
	require.NoError(t, err)
	left, late := r.ttl-r.ttl/10-7500*time.Millisecond, false
	for _, row := range rows(string(text)) {
		var s schema.Status
		require.NoError(t, json.Unmarshal([]byte(row), &s), "%s%s", row, &r.err)
		switch s.State {
		case schema.StateSuspect:
			require.LessOrEqual(t, time.Duration(s.Left), left*3/4, &r.err)
		case schema.StateStopping:
			require.LessOrEqual(t, time.Duration(s.Left), left/2, &r.err)
		case schema.StateLost:
		default:
			continue
		}
		late = true
	}
	if !late {
		require.Equal(t, 0, code, &r.err)
		require.Empty(t, lateRelease.ReplaceAllString(r.err.String(), ""), "every renewal was in time")
	}
	return !late
}
