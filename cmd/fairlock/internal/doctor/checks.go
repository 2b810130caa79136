// Package doctor examines a service and its queues, and returns findings as
// sentences.
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
	keeps      = "keeps"
	tables     = "tables"
	root       = "root"
	entries    = "entries"
	tokens     = "tokens"
	deadlock   = "deadlock"
	skipped    = "skipped"
)

// RoundTrip compares the round-trip times of several reads with the trust window: how
// long a hold is trusted without an answer of the service.
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

// maxSkew is how far clocks may differ without a warning. The displayed ages are wrong by
// as much; a skew has no other effect.
const maxSkew = 2 * time.Second

// Clocks compares the clocks of the owners of entries with ours, and with each other. An
// entry further back was requested later. If it records an earlier time, a clock is
// wrong, or the request was slow.
func Clocks(queues []schema.Queue, now time.Time) []schema.Finding {
	ahead := map[string]time.Duration{}
	behind := map[string]time.Duration{}
	for _, l := range queues {
		latest := schema.Entry{}
		for _, e := range l.Entries {
			if e.Since.IsZero() {
				continue
			}
			early := e.Since.Sub(now)
			if early > maxSkew {
				ahead[e.Host] = max(ahead[e.Host], early)
			}
			pair := e.Host + "\x00" + latest.Host
			late := latest.Since.Sub(e.Since.Time)
			if e.Host != latest.Host && !latest.Since.IsZero() && late > maxSkew {
				behind[pair] = max(behind[pair], late)
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

// Entries finds entries of other programs, and entries that never expire.
func Entries(queues []schema.Queue) []schema.Finding {
	var all []schema.Finding
	n := 0
	for _, l := range queues {
		foreign := 0
		for _, e := range l.Entries {
			n++
			if e.Unleased {
				f := schema.NewFinding(entries, schema.Bad, fmt.Sprintf("%q in the queue of %q has no session: it never expires", e.Key, l.Name))
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
		all = append(all, schema.NewFinding(entries, schema.Good, fmt.Sprintf("%s in %s, all with a session and of this library", counted(n, "entry", "entries"), counted(len(queues), "queue", "queues"))))
	}
	return all
}

// counted returns a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Tokens finds tokens that went backwards: an entry further back has a higher token, unless
// the data of the service was replaced.
func Tokens(queues []schema.Queue) []schema.Finding {
	var all []schema.Finding
	for _, l := range queues {
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

// Deadlocks returns the cycles that are in two reads of all queues, one after the other.
// A cycle in both existed as a whole at the moment between them, although neither read
// is of one moment.
func Deadlocks(first, second []schema.Queue) []schema.Finding {
	before := map[string]bool{}
	for _, d := range waitfor.Find(first) {
		before[d.ID()] = true
	}
	var all []schema.Finding
	for _, d := range waitfor.Find(second) {
		if !before[d.ID()] {
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
			text += fmt.Sprintf("; %d more wait behind them", d.Behind)
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

func sortedKeys(m map[string]time.Duration) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// short formats a duration for people.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
