package queue

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// rewrite writes the present output into the cases; read the difference.
var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

// TestCore runs the cases in testdata/core: facts about one queue, one on each line, and
// below each, indented, what the queue does. Own entries have numbers, their places.
//
//	mutex 9 ... 6 7 of 3    own entry 9 joins; the answer shows a view (see view), and
//	                        that 3 entries are ahead; by default, as many as the view has
//	writer, reader, permit  the same for an entry of these recipes
//	armed 2, gone 2, changed 2, lost 2
//	                        an event of the watch on an entry, holders or limit
//	gone 2 first, armed 2 shared, changed 2 shared
//	                        the same with First, or with the mark Shared
//	late gone 2             the same, of a watch that is cancelled
//	ended 2, ended 2 event, ended 2 leave
//	                        an entry without a watch is gone, and what proves that
//	want 9                  own entry 9 wants a read
//	send                    the queue sends the read
//	answer ... 7 9          the answer to the read, a view
//	protect 1, unwatch 1    begins or ends the watch on an own entry
//	refuse 2                the caller of own entry 2 gets an error
//	leave 1                 own entry 1 is asked to leave
//	pass 1                  the same, and own entries behind it need not wait for the answer
//	left 1 deleted          the answer to that: deleted, unclear or gone
//	downgraded 1            the answer to a downgrade of own entry 1
//	recheck                 no event has come for long
//	doubt                   another queue of the session raises a doubt
//	joining                 a join of the session in this queue is sent
//	idle                    nothing uses the queue
//	limit 5                 the queue knows a newer limit than any view shows
//	firsts                  the service reports Event.First
//	show                    shows the picture, the entries in doubt, the waiters whose own
//	                        watch is armed, and the limit
//
// After each line, the case shows the requests of the queue to the engine, the calls that it
// refuses, and own entries that hold.
func TestCore(t *testing.T) {
	files, err := filepath.Glob("testdata/core/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		require.NoError(t, err)
		head, rest, _ := strings.Cut(string(raw), "== ")
		var all strings.Builder
		all.WriteString(strings.TrimSuffix(head, "\n"))
		for section := range strings.SplitSeq(rest, "\n== ") {
			name, body, _ := strings.Cut(strings.TrimSuffix(section, "\n")+"\n", "\n")
			t.Run(name, func(t *testing.T) {
				got := runCase(newCore(t), body)
				all.WriteString("\n== " + name + "\n" + got)
				if !*rewrite {
					assert.Equal(t, body, got)
				}
			})
		}
		if *rewrite {
			require.NoError(t, os.WriteFile(f, []byte(all.String()), 0o644))
		}
	}
}

// TestPictureOfAStuckQueueStaysSmall: behind a lock that stays held, waiters of this process
// join and give up, and so do others, whose entries only the joins of this process show.
func TestPictureOfAStuckQueueStaysSmall(t *testing.T) {
	c := newCore(t)
	do := func(format string, args ...any) { c.do(strings.Fields(fmt.Sprintf(format, args...))) }
	do("mutex 2 1")
	for place := int64(10); place < 10_000; place += 10 {
		do("mutex %d ... %d %d of 4", place, place-2, place-1)
		do("leave %d", place)
		do("left %d deleted", place)
	}
	require.Less(t, len(c.pic.es), 20)

	do("gone 1")
	do("armed 2")
	assert.Equal(t, []int64{2}, c.holders())
}

// TestSoManyArePassedAndNoMore: of a long queue of own entries those are watched that may be passed on
// to soon, and while no release is answered, only so many are passed.
func TestSoManyArePassedAndNoMore(t *testing.T) {
	c := newCore(t)
	do := func(format string, args ...any) { c.do(strings.Fields(fmt.Sprintf(format, args...))) }
	watched := func() (n int) {
		c.each(func(_ int64, en *Entry) {
			if en.guard != nil && en.state == waiting {
				n++
				en.guard.armed = true
			}
		})
		return n
	}
	do("mutex 1")
	do("mutex 2 1")
	for place := 3; place <= 3*maxPassed; place++ {
		do("mutex %d %d %d of %d", place, place-2, place-1, place-1)
	}
	require.Equal(t, maxPassed, watched())
	passed := 0
	for c.entries[int64(passed+1)].Held() {
		passed++
		do("pass %d", passed)
		watched()
	}
	assert.Equal(t, maxPassed+1, passed, "the last one passes its lock on with the answer")
	assert.Equal(t, maxPassed, watched(), "as many are ready again")
	do("left %d deleted", passed)
	assert.True(t, c.entries[int64(passed+1)].Held())
}

// runCase runs the lines of a case, and returns it with the output that they really have.
func runCase(c *core, body string) string {
	var out strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			for _, l := range c.do(words) {
				out.WriteString("  " + l + "\n")
			}
		}
	}
	return out.String()
}

// core is a queue without an engine: it records the requests of the queue.
type core struct {
	*Queue
	t        *testing.T
	entries  map[int64]*Entry
	refused  map[int64]bool
	made     map[driver.Target]func(driver.Event) // of watches, also those that are cancelled
	left     map[int64]uint64                     // the eventCount before a Leave was sent
	requests []string
	lines    []string // the output of the line
	sent     *Read
}

func newCore(t *testing.T) *core {
	c := &core{
		t: t, entries: map[int64]*Entry{}, refused: map[int64]bool{},
		made: map[driver.Target]func(driver.Event){}, left: map[int64]uint64{},
	}
	c.Queue = New("n", &Term{}, c)
	return c
}

func (c *core) request(format string, args ...any) {
	c.requests = append(c.requests, fmt.Sprintf(format, args...))
}

func (c *core) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	c.made[t] = f
	c.request("watch %s", targetName(t))
	return func() { c.request("cancel %s", targetName(t)) }
}

func (c *core) Read()  { c.request("read") }
func (c *core) Renew() { c.request("renew") }

// owner is the request of an entry.
type owner struct {
	*core
	place int64
}

func (owner) Waits(int)      {}
func (owner) Done()          {}
func (o owner) Lost()        { o.request("lost %d", o.place) }
func (owner) Moved(int, int) {}

// since returns the requests since the last call.
func (c *core) since() string {
	requests := c.requests
	c.requests = nil
	return strings.Join(requests, ", ")
}

// each calls f with each own entry, in order of place.
func (c *core) each(f func(place int64, en *Entry)) {
	places := make([]int64, 0, len(c.entries))
	for place := range c.entries {
		places = append(places, place)
	}
	slices.Sort(places)
	for _, place := range places {
		f(place, c.entries[place])
	}
}

// holders returns the places of own entries that hold.
func (c *core) holders() (places []int64) {
	c.each(func(place int64, en *Entry) {
		if en.state == held {
			places = append(places, place)
		}
	})
	return places
}

// do carries out a line, and returns its output.
func (c *core) do(words []string) []string {
	c.lines = nil
	cmd, args := words[0], words[1:]
	arg := cmp.Or(strings.Join(args, " "), "0")
	place, _ := strconv.ParseInt(strings.Fields(arg)[0], 10, 64)
	switch cmd {
	case "mutex":
		c.join(rule.Mutex(), driver.Exclusive, place, args[1:])
	case "writer", "reader":
		c.join(rule.ReadWrite(), map[string]driver.Mode{"writer": driver.Exclusive, "reader": driver.Shared}[cmd], place, args[1:])
		c.entries[place].readers = true
	case "permit":
		c.join(rule.Semaphore(), driver.Weighted, place, args[1:])
	case "armed", "gone", "changed", "lost":
		w := c.watches[target(args[0])]
		require.NotNil(c.t, w, "no watch on %s", args[0])
		c.event(w, event(words))
	case "late":
		c.made[target(args[1])](event(args))
	case "ended":
		c.gone(ref(place), false, map[string]proof{"": noProof, "event": byEvent, "leave": byLeave}[strings.Join(args[1:], "")])
	case "send":
		c.send()
	case "answer":
		c.answer(args)
	case "show":
		c.show()
	case "leave", "pass", "left", "want", "protect", "unwatch", "refuse", "downgraded":
		c.act(cmd, place, args)
	default:
		c.set(cmd, arg)
	}
	return c.output()
}

// act is do for the lines about an own entry.
func (c *core) act(cmd string, place int64, args []string) {
	en := c.entries[place]
	require.NotNil(c.t, en, "no own entry %d", place)
	switch cmd {
	case "leave":
		c.leave(en)
	case "pass":
		c.leave(en)
		en.Passes()
	case "left":
		c.Left(en, map[string]driver.Left{"deleted": driver.Deleted, "unclear": driver.Unclear, "gone": driver.WasGone}[args[1]], c.left[place])
	case "want":
		c.want(en)
	case "protect":
		c.protect(en)
	case "unwatch":
		en.guard.stop()
		en.guard = nil
	case "refuse":
		c.refuse(en, ErrMustWait)
	case "downgraded":
		c.Marked(en, driver.MarkShared, c.eventCount)
	}
}

// set is do for the lines that set the state of the queue, the session or the service.
func (c *core) set(cmd, arg string) {
	switch cmd {
	case "doubt":
		c.term.doubts.raise()
	case "joining":
		c.joins++
	case "recheck":
		c.Recheck()
	case "idle":
		require.Zero(c.t, len(c.own)+c.joins)
		c.Forget()
	case "limit":
		c.limit = driver.Record{Value: []byte(arg), Version: 2, Token: 100}
	case "firsts":
		c.term.firsts = true
	default:
		c.t.Fatalf("unknown line %q", cmd)
	}
}

// output returns the output of a line.
func (c *core) output() []string {
	if requests := c.since(); requests != "" {
		c.lines = append(c.lines, "requests: "+requests)
	}
	c.each(func(place int64, en *Entry) {
		if en.group.refusal != nil && !c.refused[place] {
			c.refused[place] = true
			c.lines = append(c.lines, fmt.Sprintf("refused %d: %v", place, en.group.refusal))
		}
	})
	if holders := c.holders(); len(holders) > 0 {
		c.lines = append(c.lines, "holds: "+strings.Trim(fmt.Sprint(holders), "[]"))
	}
	return c.lines
}

// join adds an own entry with the view of the entries ahead.
func (c *core) join(r rule.Rule, mode driver.Mode, place int64, words []string) {
	count := -1
	if n := len(words); n > 1 && words[n-2] == "of" {
		var err error
		count, err = strconv.Atoi(words[n-1])
		require.NoError(c.t, err)
		words = words[:n-2]
	}
	v := view(c.t, strings.Join(words, " "))
	if v.Count = count; count < 0 {
		v.Count = len(v.Entries)
	}
	v.Complete = v.Complete && len(v.Entries) == v.Count
	c.joins++
	mine := driver.Entry{Ref: ref(place), Mode: mode, Weight: 1, Token: place}
	c.entries[place] = c.joins1(Spec{Rule: r}, driver.Joined{Entry: mine, View: v})
}

// joins1 has a group of one entry join.
func (c *core) joins1(s Spec, j driver.Joined) *Entry {
	g := NewGroup(1, owner{c, j.Entry.Place})
	g.Joined([]*Queue{c.Queue}, []Spec{s}, []driver.Joined{j}, c.term.Doubts())
	return g.Entries[0]
}

func (c *core) send() {
	c.sent = c.Next()
	line := fmt.Sprintf("reads from %d to %d, nearest %d", c.sent.From, c.sent.Upto, c.sent.Nearest)
	if c.sent.Marks {
		line += ", with marks and " + strings.Join(c.sent.Records, ", ")
	}
	c.lines = append(c.lines, line)
}

// answer takes in the answer to the read that was sent.
func (c *core) answer(words []string) {
	require.NotNil(c.t, c.sent, "no read was sent")
	a := c.sent
	c.sent = nil
	c.Learned(a, view(c.t, strings.Join(words, " ")))
	if c.reading = len(c.wanted) > 0; c.reading {
		c.request("read")
	}
}

// leave has an own entry leave; its answer is to come.
func (c *core) leave(en *Entry) {
	en.Leaves()
	en.wasFirst()
	c.left[en.Place] = c.eventCount
}

func (c *core) show() {
	var line strings.Builder
	line.WriteString("picture:")
	for i, e := range c.pic.es {
		if c.pic.gaps[i] {
			line.WriteString(" ...")
		}
		line.WriteString(fmt.Sprint(" ", e.Place))
	}
	c.lines = append(c.lines, line.String())
	c.each(func(place int64, en *Entry) {
		if en.state != over && en.shown < c.term.doubts.open() {
			c.lines = append(c.lines, fmt.Sprintf("in doubt: %d", place))
		}
		if en.state == waiting && en.guard != nil && en.guard.armed {
			c.lines = append(c.lines, fmt.Sprintf("own watch armed: %d", place))
		}
	})
	if c.limit.Version != 0 {
		c.lines = append(c.lines, "limit "+string(c.limit.Value))
	}
}
