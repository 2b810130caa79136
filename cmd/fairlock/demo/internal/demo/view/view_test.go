package view

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

func etcd() check.Terms { return check.Terms{Service: "etcd", Key: "key", Lease: "lease"} }

// full is a model in which every part has as many lines as it can have.
func full() *Model {
	m := &Model{
		Terms: etcd(), Lock: "ledger", TTL: 2 * time.Second, Elapsed: 12300 * time.Millisecond, Expected: 22 * time.Second,
		Caption: "kill -STOP dan, which holds: it cannot notice that time passes.",
		Queue: []Entry{
			{Worker: "bob", PID: 4194304, Token: 42, State: Killed, Since: 1900 * time.Millisecond},
			{Worker: "cleo", PID: 12706, Token: 44, State: Holds, Since: 100 * time.Millisecond},
			{Worker: "dan", PID: 12707, Token: 46, State: Stopped, Since: time.Second},
			{Worker: "eve", PID: 12708, Token: 48},
			{Worker: "fay", PID: 12709, Token: 50},
		},
		Missing: []string{"gus      12710      40  STOPPED, and does not know that it lost its place"},
		Highest: 44, Balance: 21,
		Writes: []ledger.Entry{
			{Token: 36, Worker: "cleo", Balance: 19},
			{Token: 38, Worker: "ada", Balance: 20},
			{Token: 40, Worker: "eve", Balance: 21},
		},
		Refused: []ledger.Refusal{{Token: 35, Worker: "gus", Write: true, Highest: 44}},
		Grants:  23, Handoffs: 20, P50: 520 * time.Microsecond, P99: 15 * time.Millisecond,
	}
	for i := range 20 {
		m.Log = append(m.Log, Note{At: time.Duration(i) * time.Second, Text: "something happened, number " + string(rune('a'+i))})
	}
	return m
}

func plain(lines []screen.Line) string {
	var b strings.Builder
	screen.Print(&b, screen.NewPaint(false), 0, lines...)
	return b.String()
}

func TestFrame(t *testing.T) {
	assert.Equal(t, strings.TrimPrefix(`
fairlock demo: lock "ledger" on etcd, 5 processes, lease 2s              12.3 s
kill -STOP dan, which holds: it cannot notice that time passes.

QUEUE          pid   token  state (as etcd has it)
 1 bob    4194304      42  KILLED, lease runs out, for 1.9 s
 2 cleo     12706      44  HOLDS for 0.1 s
 3 dan      12707      46  STOPPED, lease runs out, for 1.0 s
 4 eve      12708      48  waits for 0.0 s
 5 fay      12709      50  waits for 0.0 s
   gus      12710      40  STOPPED, and does not know that it lost its place

THE LEDGER  balance 21, refuses every token below 44
   ada   writes balance 20     token 38
   eve   writes balance 21     token 40
   gus   REFUSED: token 35, and 44 was here before

WHAT HAPPENED
15.0 s  something happened, number p
16.0 s  something happened, number q
17.0 s  something happened, number r
18.0 s  something happened, number s
19.0 s  something happened, number t

[###########.........]  23 grants, hand-off p50 0.52 ms, p99 15 ms
`, "\n"), plain(Frame(full(), 80, 24)))
}

func TestFrameFitsIntoEveryTerminal(t *testing.T) {
	for _, m := range []*Model{full(), {}} {
		for _, width := range []int{1, 2, 7, 40, 79, 80, 81, 200} {
			for height := 1; height <= 40; height++ {
				lines := Frame(m, width, height)

				require.LessOrEqual(t, len(lines), height)
				for _, l := range lines {
					require.LessOrEqual(t, utf8.RuneCountInString(l.String()), min(width-1, 79), "%q", l)
				}
			}
		}
	}
}

func TestFrameRowsDoNotMove(t *testing.T) {
	rows := func(m *Model) (at []int) {
		for i, l := range Frame(m, 80, 24) {
			if s := l.String(); strings.HasPrefix(s, "THE") || strings.HasPrefix(s, "WHAT") || strings.HasPrefix(s, "[") {
				at = append(at, i)
			}
		}
		return at
	}

	assert.Equal(t, rows(full()), rows(&Model{}))
}

func TestEscapeSequencesOfALabelDoNotReachTheTerminal(t *testing.T) {
	m := &Model{Queue: []Entry{{Worker: "\x1b[2J"}}, Log: []Note{{Text: "a\x1b]0;b\x07\nc"}}}

	assert.NotContains(t, plain(Frame(m, 80, 24)), "\x1b")
}

func report() *check.Report {
	return &check.Report{
		Terms: etcd(), Grants: 1141, Writes: 1139, Refused: 1, High: 57, Handoffs: 99138,
		Kill:      check.Kill{Worker: "cleo", PID: 4194304, Token: 22},
		Stop:      check.Stop{Worker: "dan", PID: 4194304, Token: 42, At: stamp.Stamp(time.Second), Woken: stamp.Stamp(5100 * time.Millisecond)},
		KillMoved: 1900 * time.Millisecond, StopMoved: 1700 * time.Millisecond,
		P50: 520 * time.Microsecond, P99: 3200 * time.Microsecond,
	}
}

func TestSummary(t *testing.T) {
	lines := Summary(report(), 21500*time.Millisecond)

	assert.Equal(t, strings.TrimPrefix(`
all as promised, in 21.5 s

  grants             1141  to five processes that contend all the time
  order violations      0  fair: the order in which etcd got the requests
  overlaps              0  never two live holds at one instant
  refused writes        1  fenced: dan came late, with token 42 after 57
  lost updates          0  the ledger's balance counts all its 1139 writes
  left behind           0  no keys and no leases in etcd, no processes

  hand-off         p50 0.52 ms, p99 3.2 ms, Unlock to next hold, 99138 times
  killed           next hold after 1.9 s: cleo (pid 4194304) with token 22
  stopped          next hold after 1.7 s: dan (pid 4194304), woken after 4.1 s
`, "\n"), plain(lines))
	for _, l := range lines {
		assert.Less(t, len(l.String()), 80)
	}
	assert.Empty(t, Violations(report()))
}

func TestTheTermsOfOtherServicesFit(t *testing.T) {
	for _, terms := range []check.Terms{
		{Service: "ZooKeeper", Key: "node", Lease: "session"},
		{Service: "PostgreSQL", Key: "row", Lease: "session"},
		{Service: "Redis", Key: "key", Lease: "session"},
	} {
		m, r := full(), report()
		m.Terms, r.Terms = terms, terms

		picture, summary := plain(Frame(m, 80, 24)), plain(Summary(r, 21500*time.Millisecond))

		for _, want := range []string{
			fmt.Sprintf("%-73s12.3 s\n", "fairlock demo: lock \"ledger\" on "+terms.Service+", 5 processes, session 2s"),
			"state (as " + terms.Service + " has it)\n",
			" 1 bob    4194304      42  KILLED, session runs out, for 1.9 s\n",
			" 3 dan      12707      46  STOPPED, session runs out, for 1.0 s\n",
		} {
			assert.Contains(t, picture, want)
		}
		assert.Contains(t, summary, "  fair: the order in which "+terms.Service+" got the requests\n")
		assert.Contains(t, summary, "  no "+terms.Key+"s and no sessions in "+terms.Service+", no processes\n")
		for line := range strings.Lines(summary) {
			assert.LessOrEqual(t, len(line), 80, "%s", line)
		}
	}
}

func TestSummaryOfAViolation(t *testing.T) {
	r := report()
	for range 20 {
		r.Overlaps = append(r.Overlaps, "ada held while bob held")
	}
	r.Other = []string{"no holder was killed"}

	text := plain(Summary(r, time.Second))
	bad := plain(Violations(r))

	assert.Contains(t, text, "NOT as promised, see below, in 1.0 s\n")
	assert.Contains(t, text, "  overlaps             20\n")
	assert.Equal(t, "\n"+strings.Repeat("  ada held while bob held\n", 10)+"  and 11 more\n", bad)
}

// A cause may have more consequences than are shown.
func TestCauseIsShownFirst(t *testing.T) {
	r := report()
	r.Causes = []string{"worker cleo, pid 7, ended early: exit status 70"}
	for range 20 {
		r.Other = append(r.Other, "left behind")
	}

	text := plain(Summary(r, time.Second))
	bad := plain(Violations(r))

	assert.Contains(t, text, "NOT as promised, see below, in 1.0 s\n")
	assert.True(t, strings.HasPrefix(bad, "\n  worker cleo, pid 7, ended early: exit status 70\n"), bad)
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0.00 ms",
		520 * time.Microsecond:  "0.52 ms",
		3210 * time.Microsecond: "3.2 ms",
		15 * time.Millisecond:   "15 ms",
		2 * time.Second:         "2000 ms",
	} {
		assert.Equal(t, want, millis(d))
	}
}
