package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
)

// TestRandomTraces plays traces that nobody thought of, on every kind of
// service. A failure is printed as a trace: save it under testdata when it is
// mended. Repeat a run with -run and -rapid.seed.
func TestRandomTraces(t *testing.T) {
	for of, requests := range map[string][]string{
		"Mutexes":           {"lock", "lock", "lock", "lockall", "try"},
		"ReadersAndWriters": {"rlock", "rlock", "wlock", "wlock", "tryr", "tryw", "downgrade", "downgrade"},
	} {
		for _, k := range memtest.AllKinds() {
			t.Run(of+"/"+k.Name, func(t *testing.T) { playRandom(t, k.Options, requests...) })
		}
	}
}

// playRandom plays traces of these commands on requests, and of what can happen
// to all.
func playRandom(t *testing.T, o memory.Options, requests ...string) {
	ops := []string{"join", "leave", "look", "watch", "change"}
	if o.Tells {
		ops = append(ops, "tell")
	}
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
				return "wait " + rapid.SampledFrom([]string{"3ms", "10ms", "1s", "7s", "14s", "40s"}).Draw(rt, "time")
			}
		})
		delay := rapid.SampledFrom([]string{"0ms", "1ms", "2ms", "5ms", "30ms"})
		var cmds []string
		for _, s := range []string{"a", "b", "c"} {
			cmds = append(cmds, fmt.Sprintf("slow %s %s %s", s, delay.Draw(rt, "requests"), delay.Draw(rt, "replies")))
		}
		cmds = fresh(append(cmds, rapid.SliceOfN(command, 1, 40).Draw(rt, "trace")...))
		var got string
		synctest.Test(t, func(t *testing.T) { got = play(t, o, strings.Join(cmds, "\n")) })
		if strings.Contains(got, "TWO HOLD") || strings.Contains(got, "!") {
			t.Log(got)
			rt.Fatal("two believe that they hold, or one without an entry")
		}
		if t.Failed() {
			t.Log(got)
			rt.Fatal("something was left behind")
		}
	})
}

// fresh gives requests that are made again under an old name a new one, and
// turns what is said of the old one to the new one.
func fresh(cmds []string) []string {
	made := map[string]int{}
	for i, c := range cmds {
		cmd, arg, _ := strings.Cut(c, " ")
		switch cmd {
		case "lock", "lockall", "try", "rlock", "wlock", "tryr", "tryw":
			made[arg]++
			fallthrough
		case "cancel", "unlock", "delete", "downgrade":
			cmds[i] = fmt.Sprintf("%s %s.%d", cmd, arg, made[arg])
		}
	}
	return cmds
}
