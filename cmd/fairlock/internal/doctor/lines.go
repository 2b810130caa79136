// Package doctor examines a service and the lines in it, and says what is wrong
// in sentences.
package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/internal/waitfor"
)

// The checks.
const (
	connection = "connection"
	roundTrip  = "round-trip"
	clock      = "clock"
	alarms     = "alarms"
	entries    = "entries"
	tokens     = "tokens"
	deadlock   = "deadlock"
	skipped    = "skipped"
)

// RoundTrip judges how long a read took, several times, against the window: how
// long a hold is believed in without a sign of the service.
func RoundTrip(took []time.Duration, ttl, margin time.Duration) schema.Finding {
	if len(took) == 0 {
		return schema.NewFinding(roundTrip, schema.Warn, "no round trip was measured")
	}
	window := ttl - margin
	sorted := slices.Sorted(slices.Values(took))
	median, worst := sorted[len(sorted)/2], sorted[len(sorted)-1]
	text := fmt.Sprintf("a read takes %s, at worst %s; the trust window is %s", short(median), short(worst), short(window))
	f := schema.NewFinding(roundTrip, schema.Good, text)
	switch {
	case worst > window/4:
		f.Level, f.Advice = schema.Bad, "a few slow answers lose the lock: take a longer ttl, or find out what slows the service"
	case worst > window/10:
		f.Level, f.Advice = schema.Warn, "consider a longer ttl"
	}
	return f
}

// apart is by how much clocks may differ before that is worth a word: what people
// read as ages is wrong by as much, and nothing else.
const apart = 2 * time.Second

// Clocks compares the clocks of those who stand in lines: with ours, and with each
// other's. Who stands behind has asked later; but only who says that he asked
// before is known to be wrong.
func Clocks(lines []schema.Line, now time.Time) []schema.Finding {
	ahead := map[string]time.Duration{}
	behind := map[string]time.Duration{}
	for _, l := range lines {
		latest := schema.Entry{}
		for _, e := range l.Entries {
			if e.Since.IsZero() {
				continue
			}
			if d := e.Since.Sub(now); d > apart {
				ahead[e.Host] = max(ahead[e.Host], d)
			}
			pair := e.Host + "\x00" + latest.Host
			if d := latest.Since.Sub(e.Since.Time); e.Host != latest.Host && !latest.Since.IsZero() && d > apart {
				behind[pair] = max(behind[pair], d)
			}
			if e.Since.After(latest.Since.Time) {
				latest = e
			}
		}
	}
	const advice = "keep clocks together with NTP: ages are wrong, and nothing else"
	var all []schema.Finding
	for _, host := range sortedKeys(ahead) {
		f := schema.NewFinding(clock, schema.Warn, fmt.Sprintf("the clock of %s is ahead of this machine's by %s or more", host, short(ahead[host])))
		f.Advice = advice
		all = append(all, f)
	}
	for _, pair := range sortedKeys(behind) {
		a, b, _ := strings.Cut(pair, "\x00")
		f := schema.NewFinding(clock, schema.Warn, fmt.Sprintf("%s is behind %s in a queue, and recorded that it asked %s earlier: their clocks differ, or its request took that long", a, b, short(behind[pair])))
		f.Advice = advice
		all = append(all, f)
	}
	if len(all) == 0 {
		all = append(all, schema.NewFinding(clock, schema.Good, "no clock is seen to be wrong"))
	}
	return all
}

// Entries looks for those who do not belong to this library, and for those who
// will never go.
func Entries(lines []schema.Line) []schema.Finding {
	var all []schema.Finding
	n := 0
	for _, l := range lines {
		foreign := 0
		for _, e := range l.Entries {
			n++
			if e.Unleased {
				f := schema.NewFinding(entries, schema.Bad, fmt.Sprintf("%q in the queue of %q has no session: it will never go by itself", e.Key, l.Name))
				f.Names, f.Advice = []string{l.Name}, "find the program that made it, and delete it"
				all = append(all, f)
			} else if e.Foreign {
				foreign++
			}
		}
		if foreign > 0 {
			f := schema.NewFinding(entries, schema.Warn, fmt.Sprintf("%d of %d entries in the queue of %q are another program's", foreign, len(l.Entries), l.Name))
			f.Names, f.Advice = []string{l.Name}, "if that is not intended, find the other program that uses the name"
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		all = append(all, schema.NewFinding(entries, schema.Good, fmt.Sprintf("%s in %s, all with a session and of this library", counted(n, "entry", "entries"), counted(len(lines), "queue", "queues"))))
	}
	return all
}

// counted is how many of something there are.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Tokens looks for those that went backwards: who stands behind has the higher
// token, for as long as the store lives.
func Tokens(lines []schema.Line) []schema.Finding {
	var all []schema.Finding
	for _, l := range lines {
		last := schema.Entry{}
		for _, e := range l.Entries {
			if e.Token == 0 {
				continue
			}
			if e.Token <= last.Token {
				f := schema.NewFinding(tokens, schema.Bad, fmt.Sprintf("in the queue of %q token %d is behind token %d", l.Name, e.Token, last.Token))
				f.Names = []string{l.Name}
				f.Advice = "tokens went backwards: was the store restored from a backup? Resources will refuse the newer holder"
				all = append(all, f)
			}
			last = e
		}
	}
	if len(all) == 0 {
		all = append(all, schema.NewFinding(tokens, schema.Good, "tokens rise in every queue"))
	}
	return all
}

// Deadlocks names the cycles that are in two looks at all lines, one after the
// other. What is in both was all there at the moment between them, though neither
// look was of one moment.
func Deadlocks(first, second []schema.Line) []schema.Finding {
	before := map[string]bool{}
	for _, d := range waitfor.Find(first) {
		before[cycle(d)] = true
	}
	var all []schema.Finding
	for _, d := range waitfor.Find(second) {
		if !before[cycle(d)] {
			continue
		}
		var steps []string
		for _, s := range d.Steps {
			has := "holds"
			if s.Owns.State != schema.Holder {
				has = "is ahead in"
			}
			steps = append(steps, fmt.Sprintf("%s %s %q and waits for %q", s.Waits.Who(), has, s.In, s.For))
		}
		text := strings.Join(steps, ", ")
		if d.Behind > 0 {
			text += fmt.Sprintf("; %d more wait behind such", d.Behind)
		}
		f := schema.NewFinding(deadlock, schema.Bad, text)
		f.Names = d.Names()
		f.Advice = "end one of them; then let all acquire in the same order, or acquire all locks at once"
		all = append(all, f)
	}
	if len(all) == 0 {
		all = append(all, schema.NewFinding(deadlock, schema.Good, "no callers wait for each other, as far as they reported what they hold"))
	}
	return all
}

// cycle is the same for the same cycle, wherever it is begun.
func cycle(d waitfor.Deadlock) string {
	var all []string
	for _, s := range d.Steps {
		all = append(all, fmt.Sprintf("%s %d %s %d", s.For, s.Waits.Token, s.In, s.Owns.Token))
	}
	slices.Sort(all)
	return strings.Join(all, ";")
}

func sortedKeys(m map[string]time.Duration) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// short is a duration for people.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
