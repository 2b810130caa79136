package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// lock returns a mutex with a holder and n waiters; oldest is how long the oldest waits.
func lock(name string, n int, oldest time.Duration) schema.Queue {
	l := schema.Queue{Name: name, Kind: "mutex", Holders: 1, Waiters: n, OldestWait: schema.Seconds(oldest)}
	for i := range n + 1 {
		e := schema.Entry{
			Place: i + 1, State: schema.Waiter, Mode: "exclusive", Host: "host-" + name, PID: 100 + i, Label: fmt.Sprintf("w%d", i),
			Token: int64(10*len(name) + i), Key: fmt.Sprintf("k%d", i), Queued: schema.Seconds(oldest),
		}
		if i == 0 {
			e.State = schema.Holder
		}
		l.Entries = append(l.Entries, e)
	}
	return l
}

// list returns a state after a read of locks.
func list(width, height int, locks ...schema.Queue) State {
	s, _ := Update(State{Service: "etcd at db:2379", Width: width, Height: height}, Locks{Queues: locks, At: time.Unix(1e9, 0)})
	return s
}

// many returns n locks with n, n-1, ... waiters.
func many(n int) []schema.Queue {
	var all []schema.Queue
	for i := range n {
		all = append(all, lock(fmt.Sprintf("jobs/%03d", i), n-i, time.Second))
	}
	return all
}

// after returns the state after keys, and the command of the last one.
func after(s State, keys ...Key) (State, Command) {
	var do Command
	for _, k := range keys {
		s, do = Update(s, k)
	}
	return s, do
}

// text returns the lines on the screen.
func text(s State) []string {
	var all []string
	for _, r := range View(s) {
		all = append(all, r.String())
	}
	return all
}

// selected returns the selected row.
func selected(t *testing.T, s State) string {
	t.Helper()
	var found []string
	for _, r := range View(s) {
		if r.Selected {
			found = append(found, r.String())
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

func TestQAndInterruptQuit(t *testing.T) {
	for _, k := range []Key{"q", Interrupt} {
		_, do := after(list(80, 24, many(3)...), k)
		assert.Equal(t, Quit, do.Do)
	}
	for name, before := range map[string][]Key{"question": {"e"}, "help": {"?"}, "filter": {"/"}, "queue": {Enter}} {
		_, do := after(list(80, 24, many(3)...), append(before, Interrupt)...)
		assert.Equal(t, Quit, do.Do, name)
	}
	s, do := after(list(80, 24, many(3)...), "/", "q")
	assert.Equal(t, Nothing, do.Do, "the filter is typed")
	assert.Equal(t, "q", s.filter)
}

func TestEveryRowCanBeReached(t *testing.T) {
	for _, height := range []int{6, 9, 10, 24} {
		s := list(80, height, many(100)...)
		for i := range 100 {
			assert.Contains(t, selected(t, s), fmt.Sprintf("jobs/%03d ", i), "height %d", height)
			s, _ = after(s, Down)
		}
		assert.Contains(t, selected(t, s), "jobs/099 ", "the last row")
		for _, c := range []struct {
			key  Key
			want string
		}{{Home, "jobs/000 "}, {Up, "jobs/000 "}, {End, "jobs/099 "}, {"k", "jobs/098 "}, {"j", "jobs/099 "}, {Home, "jobs/000 "}} {
			s, _ = after(s, c.key)
			assert.Contains(t, selected(t, s), c.want, "height %d, %s", height, c.key)
		}
	}
	s := list(80, 24, many(100)...)
	s, _ = after(s, PageDown)
	assert.Contains(t, selected(t, s), "jobs/019 ", "19 rows fit")
	assert.Contains(t, text(s)[1], "2-20 of 100")
	s, _ = after(s, PageDown, PageUp)
	assert.Contains(t, selected(t, s), "jobs/019 ")
}

func TestTheSelectionStaysOnItsLock(t *testing.T) {
	s, _ := after(list(80, 24, lock("a", 3, 0), lock("b", 2, 0), lock("c", 1, 0)), Down)
	require.Contains(t, selected(t, s), "b ")

	s, _ = Update(s, Locks{Queues: []schema.Queue{lock("a", 3, 0), lock("b", 9, 0), lock("c", 1, 0)}})
	assert.Contains(t, selected(t, s), "b ", "it is the first row now")
	s, _ = Update(s, Locks{Queues: []schema.Queue{lock("a", 3, 0), lock("c", 1, 0)}})
	assert.Contains(t, selected(t, s), "a ", "the row in its place")
	s, _ = Update(s, Locks{})
	assert.Contains(t, text(s)[1], "0 locks, 0 holders, 0 waiters")
	_, do := after(s, Down, "e", "y", "a", "y", Enter)
	assert.Equal(t, Nothing, do.Do)
}

func TestTheSortColumnIsChosen(t *testing.T) {
	a, b, c := lock("a", 1, 2*time.Second), lock("b", 3, time.Second), lock("c", 2, 3*time.Second)
	a.Entries[0].Held, b.Entries[0].Held = schema.Seconds(time.Second), schema.Seconds(2*time.Second)
	s := list(80, 24, a, b, c)
	for _, want := range []string{"waiters bca", "oldest cab", "name abc", "held bac", "waiters bca"} {
		var names strings.Builder
		for _, l := range s.shown() {
			names.WriteString(l.Name)
		}
		assert.Equal(t, want, s.order.String()+" "+names.String())
		assert.Contains(t, text(s)[3], s.order.column()+"*")
		s, _ = after(s, "s")
	}
	s, _ = after(s, "<")
	assert.Equal(t, byWaiters, s.order)
	s, _ = after(s, "<")
	assert.Equal(t, byHeld, s.order)
	s, _ = after(s, ">")
	assert.Equal(t, byWaiters, s.order)
}

func TestTheFilterMatchesNamesAndHolders(t *testing.T) {
	s := list(80, 24, lock("orders/pay", 1, 0), lock("orders/settle", 1, 0), lock("gpu", 1, 0))
	s, _ = after(s, "/", "S", "e", "x", Backspace)
	assert.Equal(t, []string{"orders/settle"}, s.names())
	assert.Equal(t, "/Se_", text(s)[23])
	s, _ = after(s, Enter)
	assert.Contains(t, text(s)[1], `1 lock, 1 holder, 1 waiter, filter "Se" of 3`)
	s, _ = after(s, Escape)
	assert.Len(t, s.names(), 3)
	s, _ = after(s, "/", "h", "o", "s", "t", "-", "g", Enter)
	assert.Equal(t, []string{"gpu"}, s.names())
	s, _ = after(s, "/", Escape)
	assert.Len(t, s.names(), 3)
}

func TestEnterOpensAQueueAndEscapeGoesBack(t *testing.T) {
	s, do := after(list(80, 24, lock("a", 3, 0), lock("b", 2, 0)), Down, Enter)
	assert.Equal(t, Read, do.Do)
	assert.Equal(t, "b  mutex, 1 holder, 2 waiting", text(s)[1])
	s, _ = Update(s, Queue{Queue: lock("a", 3, 0)})
	assert.Equal(t, "b  mutex, 1 holder, 2 waiting", text(s)[1], "a read of a queue that was left")
	s, _ = Update(s, Queue{Queue: lock("b", 5, 0)})
	assert.Equal(t, "b  mutex, 1 holder, 5 waiting", text(s)[1])
	s, _ = after(s, Down)
	assert.Regexp(t, `^2 +waiter +11 `, selected(t, s))
	gone := lock("b", 5, 0)
	gone.Entries = gone.Entries[1:]
	s, _ = Update(s, Queue{Queue: gone})
	assert.Contains(t, selected(t, s), " 11 ", "the same entry, a place further")
	s, _ = Update(s, Queue{Queue: schema.Queue{Name: "b"}})
	assert.Equal(t, "b: no holder and no waiter any more", text(s)[1])

	s, do = after(s, Escape)

	assert.Equal(t, Read, do.Do)
	assert.Contains(t, selected(t, s), "b ")
}

func TestAnActionIsDoneOnlyAfterAYes(t *testing.T) {
	s := list(80, 24, lock("deploy", 1, 0))
	for _, no := range []Key{"n", Enter, Escape, "q", " ", Down} {
		for _, action := range []Key{"a", "e"} {
			refused, do := after(s, action, no)
			assert.Equal(t, Nothing, do.Do, "%s %s", action, no)
			assert.Nil(t, refused.question)
			assert.Contains(t, text(refused)[23], "nothing was done")
		}
	}
	for _, yes := range []Key{"y", "Y"} {
		_, do := after(s, "e", yes)
		assert.Equal(t, Command{Do: Evict, Name: "deploy", Token: 60, Holder: true}, do)
		_, do = after(s, "a", yes)
		assert.Equal(t, Command{Do: Ask, Name: "deploy"}, do)
	}
	s, _ = after(s, Enter, Down)
	_, do := after(s, "e", "y")
	assert.Equal(t, Command{Do: Evict, Name: "deploy", Token: 61}, do, "the selected waiter")
}

func TestAQuestionNamesLockHolderAndToken(t *testing.T) {
	for _, width := range []int{80, 40} {
		for _, k := range []Key{"a", "e"} {
			s, _ := after(list(width, 24, lock("deploy", 1, 0)), k)
			all := strings.Join(text(s), " ")
			for _, want := range []string{`"deploy"`, "host-deploy pid 100", "(w0)", "token 60", "[y/N]"} {
				assert.Contains(t, all, want, "width %d", width)
			}
		}
	}
	two := lock("gpu", 2, 0)
	two.Entries[1].State, two.Holders, two.Waiters = schema.Holder, 2, 1
	s, _ := after(list(80, 24, two), "e")
	assert.Nil(t, s.question)
	assert.Contains(t, text(s)[23], "2 holders: press Enter and select one")
	s, _ = after(s, "a")
	assert.Contains(t, s.question.text, "(token 30), host-gpu pid 101 (w1) (token 31)")
}

func TestAYieldRequestIsWithdrawnWithTheSameKey(t *testing.T) {
	s, do := after(list(80, 24, lock("a", 1, 0)), "a", "y")
	s, _ = Update(s, Done{Command: do, Text: "asked"})
	assert.Contains(t, text(s)[23], "asked")
	_, do = after(s, "a", "y")
	assert.Equal(t, Command{Do: Withdraw, Name: "a"}, do)
	withdrawn, _ := Update(s, Done{Command: do})
	_, again := after(withdrawn, "a", "y")
	assert.Equal(t, Ask, again.Do)
	lost, _ := Update(s, Done{Command: Command{Do: SessionLost}, Text: "the session was lost"})
	assert.Contains(t, text(lost)[23], "the session was lost")
	_, again = after(lost, "a", "y")
	assert.Equal(t, Ask, again.Do)
	failed, _ := Update(list(80, 24, lock("a", 1, 0)), Done{Command: Command{Do: Ask, Name: "a"}, Failed: true, Text: "no permission"})
	_, again = after(failed, "a", "y")
	assert.Equal(t, Ask, again.Do)
}

func TestUpdateDoesNotChangeItsArgument(t *testing.T) {
	s, do := after(list(80, 24, lock("a", 1, 0), lock("b", 2, 0)), "a", "y")
	s, _ = Update(s, Done{Command: do})
	before := strings.Join(text(s), "\n")
	for _, k := range []Key{"s", "/", "e", "a", Down, Enter, "?"} {
		_, _ = after(s, k, "y")
	}
	_, _ = Update(s, Done{Command: Command{Do: Withdraw, Name: do.Name}})
	_, _ = Update(s, Locks{})

	assert.Equal(t, before, strings.Join(text(s), "\n"))
	assert.Equal(t, []string{do.Name}, s.asked)
}

func TestAViewFitsEverySize(t *testing.T) {
	long := lock(strings.Repeat("very/long/", 8), 2, 40*time.Second)
	long.Asks = []schema.Ask{{Host: "a"}, {Host: "b"}, {Host: "c"}}
	for width := 1; width <= 100; width += 13 {
		for _, height := range []int{0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 24} {
			s := list(width, height, append(many(40), long)...)
			for _, keys := range [][]Key{{}, {"?"}, {"e"}, {End}, {End, "e"}, {Enter}, {Enter, End, "e"}, {"/", "j"}} {
				s, _ := after(s, keys...)
				rows := View(s)
				assert.LessOrEqual(t, len(rows), height)
				for _, r := range rows {
					assert.LessOrEqual(t, len([]rune(r.String())), width)
				}
			}
		}
	}
	for _, r := range View(State{Width: 10}) {
		assert.Empty(t, r)
	}
}

func TestARowIsMarkedOnlyWhereTheOldestWaiterWaitsLong(t *testing.T) {
	s := list(80, 24, lock("c", 3, 29*time.Second), lock("b", 2, 45*time.Second), lock("a", 1, time.Hour))
	var tones []screen.Tone
	for _, r := range View(s)[4:7] {
		tones = append(tones, r.Line[0].Tone)
	}
	assert.Equal(t, []screen.Tone{screen.Plain, screen.Warn, screen.Bad}, tones)
	assert.Regexp(t, ` 29s$`, text(s)[4])
	assert.Regexp(t, ` 45s !$`, text(s)[5])
	assert.Regexp(t, ` 1h00m !!$`, text(s)[6])
	s, _ = after(s, "?")
	help := strings.Join(text(s), "\n")
	assert.Contains(t, help, "waited for 30 s or more")
	assert.Contains(t, help, "for 5 min or more")
}

func TestColumnsThatDoNotFitAreShortenedThenLeftOut(t *testing.T) {
	l := lock("orders/settlement", 1, 0)
	assert.Equal(t, "NAME               KIND   HOLDER                               HELD  WAITERS*  OLDEST", text(list(100, 24, l))[3])
	s := list(60, 24, l)
	assert.Equal(t, "NAME           KIND   HOLDER          HELD  WAITERS*  OLDEST", text(s)[3])
	assert.Equal(t, "orders/settl~  mutex  host-orders/s~  -     1         -", text(s)[4])
	s = list(40, 24, l)
	assert.Equal(t, "NAME               WAITERS*  OLDEST", text(s)[3])
	assert.Equal(t, "orders/settlement  1         -", text(s)[4])
}

func TestAServiceThatDoesNotAnswerIsNamedInTheTitle(t *testing.T) {
	s := list(80, 24, lock("a", 1, 0))
	s, _ = Update(s, Unanswered{})
	assert.Regexp(t, `^NO ANSWER SINCE \d\d:\d\d:\d\d  fairlock top: etcd at db:2379$`, text(s)[0])
	assert.Contains(t, selected(t, s), "a ", "what was known is still shown")
	s, _ = Update(s, Locks{At: time.Unix(2e9, 0)})
	assert.NotContains(t, text(s)[0], "NO ANSWER")
}

func TestControlCharactersAreNotPrinted(t *testing.T) {
	l := lock("a\x1b[2J", 2, 0)
	l.Entries[0].Label, l.Entries[1].Label = "\x07", "\u202e"
	l.Asks = []schema.Ask{{Host: "h", Reason: "\x1b]0;x"}}
	s := list(80, 24, l)
	for _, keys := range [][]Key{{}, {"a"}, {"e"}, {Enter}, {Enter, Down, "e"}, {"/", "a", Enter}} {
		s, _ := after(s, keys...)
		assert.NotRegexp(t, `[\x00-\x1f\x{202e}]`, strings.Join(text(s), ""))
	}
}
