package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// output returns an Output after the flags of a command were parsed.
func output(t *testing.T, args ...string) *Output {
	t.Helper()
	colour := false
	o := &Output{NoColour: &colour}
	cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	o.Register(cmd, Table, Wide, JSON, YAML, Lines)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return o
}

// printed returns a table without colours.
func printed(t *testing.T, r *Rows) string {
	t.Helper()
	var b bytes.Buffer
	output(t).Print(&b, r.Lines()...)
	return b.String()
}

// queue returns an example of a queue.
func queue() schema.Queue {
	l := schema.NewQueue("jobs/nightly")
	l.Kind, l.Holders, l.Waiters, l.OldestWait = "mutex", 1, 2, schema.Seconds(75*time.Second)
	l.Entries = []schema.Entry{
		{
			State: schema.Holder, Place: 1, Token: 812, Mode: "exclusive", Host: "web-2", PID: 4121, Label: "backup.sh",
			Queued: schema.Seconds(40 * time.Minute), Held: schema.Seconds(133 * time.Second), Session: "s1", Key: "k1", Holds: []string{"a", "b"},
		},
		{State: schema.Waiter, Place: 2, Token: 815, Mode: "weighted", Weight: 3, Host: "web-3", PID: 77, Key: "k2", Value: "v"},
		{State: schema.Waiter, Place: 3, Token: 816, Mode: "exclusive", Foreign: true, Unleased: true, Key: "k3"},
	}
	return l
}

func TestTables(t *testing.T) {
	assert.Equal(t, strings.TrimPrefix(`
NAME          KIND       HOLDER                      HELD   WAITERS  OLDEST
jobs/nightly  mutex      web-2 pid 4121 (backup.sh)  2m13s  2        1m15s
gpu           semaphore  web-2 pid 4121 +3           -      0        -
x             foreign    -                           -      0        -
`, "\n"), printed(t, List([]schema.Queue{
		queue(),
		{Name: "gpu", Kind: "semaphore", Holders: 4, Entries: []schema.Entry{{Host: "web-2", PID: 4121}}},
		{Name: "x", Entries: []schema.Entry{{Foreign: true}}},
	}, false)))
	assert.Equal(t, strings.TrimPrefix(`
NAME          KIND   HOLDER                      HELD   WAITERS  OLDEST  QUEUED  TOKEN  LIMIT  SESSION
jobs/nightly  mutex  web-2 pid 4121 (backup.sh)  2m13s  2        1m15s   40m00s  812    -      s1
`, "\n"), printed(t, List([]schema.Queue{queue()}, true)))
	plain := queue()
	plain.Entries[1].Value = ""
	assert.Equal(t, strings.TrimPrefix(`
PLACE  STATE   TOKEN  MODE       HOST                   PID   LABEL      ASKED  QUEUED  HELD
1      holder  812    exclusive  web-2                  4121  backup.sh  -      40m00s  2m13s
2      waiter  815    weight 3   web-3                  77    -          -      -       -
3      waiter  816    exclusive  (foreign, no session)  -     -          -      -       -
`, "\n"), printed(t, Queue(plain, false)))
	assert.Contains(t, printed(t, Queue(queue(), true)), "backup.sh  -      40m00s  2m13s  -      a,b    s1       k1\n")
	assert.Contains(t, printed(t, Queue(queue(), false)), "QUEUED  HELD   VALUE\n", "the column is shown if an entry has a value")
	candidates := queue()
	candidates.Entries[0].Generation = 7
	assert.Contains(t, printed(t, Queue(candidates, false)), "VALUE  GENERATION\n", "the same")
}

func TestControlCharactersOfEntriesAreNotPrinted(t *testing.T) {
	l := queue()
	l.Name, l.Entries[0].Label, l.Entries[1].Value = "a\x1b[2J", "x\ty\nz", "\x07"
	l.Entries[0].Holds = []string{"\u202e"}

	for _, r := range []*Rows{List([]schema.Queue{l}, true), Queue(l, true)} {
		text := printed(t, r)
		assert.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x{202e}]`, text)
		assert.Equal(t, len(r.cells), strings.Count(text, "\n"))
	}
	assert.NotContains(t, Event(schema.NewEvent(schema.Granted, l.Name, time.Now(), l.Entries[0])).String(), "\x1b")
}

func TestALockIsMarkedWhereTheOldestWaiterWaitsLong(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "", WaitsLong - time.Millisecond: "", WaitsLong: "!", WaitsVeryLong - time.Millisecond: "!", WaitsVeryLong: "!!",
	} {
		mark, tone := Mark(schema.Queue{Waiters: 1, OldestWait: schema.Seconds(wait)})

		assert.Equal(t, want, mark, wait)
		assert.Equal(t, want == "", tone == screen.Plain, wait)
	}
	mark, tone := Mark(schema.Queue{Kind: "election", Waiters: 1, OldestWait: schema.Seconds(WaitsVeryLong)})
	assert.Empty(t, mark, "candidates stand by")
	assert.Equal(t, screen.Plain, tone)
}

func TestTheHeaderShowsHowMuchIsHeld(t *testing.T) {
	holder := func(weight int64, value, mode string) schema.Entry {
		return schema.Entry{State: schema.Holder, Weight: weight, Value: value, Mode: mode}
	}
	for want, l := range map[string]schema.Queue{
		"jobs/nightly  mutex, 1 holder, 2 waiting": queue(),
		"gpu  semaphore, 3 of 4 permits, 1 waiting": {
			Name: "gpu", Kind: "semaphore", Limit: 4, Holders: 2, Waiters: 1,
			Entries: []schema.Entry{holder(1, "", "weighted"), holder(2, "", "weighted"), {State: schema.Waiter, Weight: 3}},
		},
		"gpu  semaphore, 3 permits, limit 2, 0 waiting": {
			Name: "gpu", Kind: "semaphore", Limit: 2, Holders: 1, Entries: []schema.Entry{holder(3, "", "weighted")},
		},
		"post  election, leader 10.0.0.7:80, 0 waiting": {
			Name: "post", Kind: "election", Holders: 1, Entries: []schema.Entry{holder(0, "10.0.0.7:80", "exclusive")},
		},
		"post  election, 1 leader, 0 waiting": {Name: "post", Kind: "election", Holders: 1, Entries: []schema.Entry{holder(0, "", "exclusive")}},
		"cfg  rwlock, 2 readers, 0 waiting": {
			Name: "cfg", Kind: "rwlock", Holders: 2, Entries: []schema.Entry{holder(0, "", "shared"), holder(0, "", "shared")},
		},
		"a?[2J  foreign, 1 holder, 0 waiting": {Name: "a\x1b[2J", Holders: 1, Entries: []schema.Entry{holder(0, "", "exclusive")}},
	} {
		assert.Equal(t, want, Header(l).String())
	}
}

func TestEventsAsText(t *testing.T) {
	e := schema.NewEvent(schema.Moved, "a", time.Date(2026, 11, 20, 17, 0, 0, 0, time.Local), queue().Entries[1])
	e.From = 4
	assert.Equal(t, "17:00:00.000  moved     a  web-3 pid 77, place 2 after 4, weight 3", Event(e).String())
	e = schema.NewEvent(schema.Granted, "a", time.Date(2026, 11, 20, 17, 0, 0, 0, time.Local), queue().Entries[0])
	assert.Equal(t, "17:00:00.000  granted   a  web-2 pid 4121 (backup.sh), token 812", Event(e).String())
}

func TestFindingsAsText(t *testing.T) {
	f := schema.NewFinding("entries", schema.Bad, "it is broken")
	f.Advice = "mend it"
	lines := Finding(f)
	assert.Equal(t, "problem  entries     it is broken", lines[0].String())
	assert.Equal(t, strings.Index(lines[0].String(), "it is"), strings.Index(lines[1].String(), "mend"), "the advice is below the text")
	assert.Equal(t, screen.Bad, lines[0][0].Tone)
}

func TestObjectsAreOnePerLineOrAnArray(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, All(output(t, "-o", "jsonl"), &b, []int{1, 2}))
	require.NoError(t, All(output(t, "-o", "json"), &b, []int{1}))
	require.NoError(t, All(output(t, "-o", "json"), &b, []int(nil)))
	require.NoError(t, output(t, "-o", "json").One(&b, map[string]string{"a": "<&>"}))

	assert.Equal(t, "1\n2\n[\n  1\n]\n[]\n{\n  \"a\": \"<&>\"\n}\n", b.String())
}

func TestYAMLHasTheSameContentAsJSON(t *testing.T) {
	l := queue()
	l.Entries[0].Token = 1<<62 + 1 // a float64 cannot represent it
	var asJSON, asYAML bytes.Buffer
	require.NoError(t, output(t, "-o", "json").One(&asJSON, l))
	require.NoError(t, output(t, "-o", "yaml").One(&asYAML, l))

	back, err := yaml.YAMLToJSON(asYAML.Bytes())

	require.NoError(t, err)
	assert.JSONEq(t, asJSON.String(), string(back))
	assert.Contains(t, asYAML.String(), "  token: 4611686018427387905\n")
	asYAML.Reset()
	require.NoError(t, All(output(t, "-o", "yaml"), &asYAML, []int{1, 2}))
	require.NoError(t, All(output(t, "-o", "yaml"), &asYAML, []int(nil)))
	assert.Equal(t, "- 1\n- 2\n[]\n", asYAML.String())
}

func TestALeaderIsNamedByItsValue(t *testing.T) {
	l := schema.Queue{Name: "post", Kind: "election", Holders: 1, Entries: []schema.Entry{
		{State: schema.Holder, Host: "web-2", PID: 4121, Label: "sleep", Value: "10.0.0.7:8080"},
	}}
	assert.Equal(t, "10.0.0.7:8080 (web-2 pid 4121)", Holders(l))
}

func TestTimesNameTheirZone(t *testing.T) {
	at := time.Date(2026, 11, 20, 17, 0, 0, 0, time.Local)
	assert.Equal(t, at.Format("2006-01-02 15:04:05 -0700"), clock(schema.At(at)))
	assert.Empty(t, clock(schema.Time{}))
}

func TestDurationsHaveTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 20 * time.Millisecond: "20ms", 12340 * time.Millisecond: "12.3s", 61 * time.Second: "1m01s",
		61 * time.Minute: "1h01m", 49 * time.Hour: "2d01h",
	} {
		assert.Equal(t, want, Short(schema.Seconds(d)))
	}
}
