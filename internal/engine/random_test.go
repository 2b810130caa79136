package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
)

// moreKinds are kinds of service on which the same commands may lead to something else at
// another time.
func moreKinds() []kind {
	return append(kinds(),
		kind{"Stale", memory.Options{Stale: 30 * time.Millisecond}},
		kind{"LateArmed", memory.Options{LateArmed: 20 * time.Millisecond, First: true}},
		kind{"NoOptional", memory.Options{NoOptional: true, Later: true, Spurious: true}},
	)
}

// TestRandomTraces runs random traces, on every kind of service. A failure is printed as a
// trace: save it under testdata when the bug is fixed. Repeat a run with -run and
// -rapid.seed.
func TestRandomTraces(t *testing.T) {
	for of, requests := range map[string][]string{
		"Mutexes":           {"lock", "lock", "lock", "lockall", "try", "robust"},
		"ReadersAndWriters": {"rlock", "rlock", "wlock", "wlock", "tryr", "tryw", "downgrade", "downgrade"},
		"Permits":           {"acquire", "acquire", "acquire", "limit"},
	} {
		for _, k := range moreKinds() {
			t.Run(of+"/"+k.name, func(t *testing.T) { runRandom(t, k.options, requests...) })
		}
	}
}

// runRandom runs traces of these commands on requests, and of what can happen to all.
func runRandom(t *testing.T, o memory.Options, requests ...string) {
	ops := []string{"join", "leave", "read", "watch", "update"}
	rapid.Check(t, func(rt *rapid.T) {
		session := rapid.SampledFrom([]string{"a", "b", "c"})
		command := rapid.Custom(func(rt *rapid.T) string {
			s := session.Draw(rt, "session")
			request := fmt.Sprint(s, rapid.IntRange(1, 3).Draw(rt, "request"))
			switch cmd := rapid.SampledFrom(append([]string{
				"cancel", "unlock", "unlock", "delete",
				"expire", "cut", "heal", "heal", "foreign", "remove", "wait", "wait", "fault",
			}, requests...)).Draw(rt, "command"); cmd {
			default:
				return cmd + " " + request
			case "acquire":
				return fmt.Sprintf("acquire %s %d", request, rapid.IntRange(1, 3).Draw(rt, "permits"))
			case "limit":
				return fmt.Sprintf("limit %s %d", s, rapid.IntRange(3, 4).Draw(rt, "limit"))
			case "expire", "cut", "heal":
				return cmd + " " + s
			case "fault":
				how := rapid.SampledFrom([]fault.Kind{fault.LostRequest, fault.LostReply, fault.BrokenReply, fault.LateRequest}).Draw(rt, "how")
				return fmt.Sprintf("fault %s %s %s", s, how, rapid.SampledFrom(ops).Draw(rt, "op"))
			case "foreign":
				return "foreign x"
			case "remove":
				return "remove x"
			case "wait":
				return "wait " + rapid.SampledFrom([]string{"3ms", "10ms", "300ms", "1s", "7s", "14s", "40s"}).Draw(rt, "time")
			}
		})
		delay := rapid.SampledFrom([]string{"0ms", "1ms", "2ms", "5ms", "30ms"})
		var cmds []string
		for _, s := range []string{"a", "b", "c"} {
			cmds = append(cmds, fmt.Sprintf("slow %s %s %s", s, delay.Draw(rt, "requests"), delay.Draw(rt, "replies")))
		}
		cmds = fresh(append(cmds, rapid.SliceOfN(command, 1, 40).Draw(rt, "trace")...))
		var got string
		synctest.Test(t, func(t *testing.T) { got = run(t, o, strings.Join(cmds, "\n")) })
		if strings.Contains(got, "TWO HOLD") || strings.Contains(got, "!") || strings.Contains(got, "NOTHING MOVES") {
			rt.Fatal("two hold, or one without an entry, or something was left behind:\n" + got)
		}
	})
}

// fresh gives requests that are made again under an old name a new name, in the commands
// that follow too.
func fresh(cmds []string) []string {
	made := map[string]int{}
	for i, c := range cmds {
		words := strings.Fields(c)
		switch words[0] {
		case "lock", "lockall", "try", "rlock", "wlock", "tryr", "tryw", "robust", "acquire":
			made[words[1]]++
			fallthrough
		case "cancel", "unlock", "delete", "downgrade":
			words[1] = fmt.Sprintf("%s.%d", words[1], made[words[1]])
			cmds[i] = strings.Join(words, " ")
		}
	}
	return cmds
}
