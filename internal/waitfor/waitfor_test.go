package waitfor

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/schema"
)

// word is an entry in a text: the session, its mode (s for shared, a number for a
// weight), #token if entries in other queues have it too, + if it holds, and the
// names that its owner claims to hold.
var word = regexp.MustCompile(`^([A-Z])(s|\d)?(?:#(\d+))?(\+)?(?:\[(.*)\])?$`)

// queues makes queues of texts such as "a: X+ Y[b]; b: Y+ X[a]"; "a/4:" has the
// limit 4.
func queues(t *testing.T, text string) []schema.Queue {
	t.Helper()
	var all []schema.Queue
	token := int64(100)
	for part := range strings.SplitSeq(text, ";") {
		name, entries, _ := strings.Cut(strings.TrimSpace(part), ":")
		name, limit, _ := strings.Cut(name, "/")
		q := schema.NewQueue(name)
		q.Limit, _ = strconv.ParseInt(limit, 10, 64)
		for i, w := range strings.Fields(entries) {
			m := word.FindStringSubmatch(w)
			require.NotNil(t, m, w)
			token++
			e := schema.Entry{State: schema.Waiter, Place: i + 1, Session: m[1], Mode: "exclusive", Token: token, Key: fmt.Sprint(name, i)}
			switch m[2] {
			case "":
			case "s":
				e.Mode = "shared"
			default:
				e.Mode = "weighted"
				e.Weight, _ = strconv.ParseInt(m[2], 10, 64)
			}
			if m[3] != "" {
				e.Token, _ = strconv.ParseInt(m[3], 10, 64)
			}
			if m[4] != "" {
				e.State = schema.Holder
			}
			if m[5] != "" {
				e.Holds = strings.Split(m[5], ",")
			}
			q.Entries = append(q.Entries, e)
		}
		all = append(all, q)
	}
	return all
}

// show writes a deadlock as "X owns a, waits for b; ...".
func show(all []Deadlock) string {
	var out []string
	for _, d := range all {
		var steps []string
		for _, s := range d.Steps {
			steps = append(steps, fmt.Sprintf("%s owns %s, waits for %s", s.Owns.Session, s.In, s.For))
		}
		out = append(out, fmt.Sprintf("%s (%d behind)", strings.Join(steps, "; "), d.Behind))
	}
	return strings.Join(out, " | ")
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ name, queues, want string }{
		{"nothing", "", ""},
		{"one queue", "a: X+ Y Z", ""},
		{"a chain", "a: X+ Y[b]; b: Y+ Z[c]; c: Z+", ""},
		{"two", "a: X+ Y[b]; b: Y+ X[a]", "Y owns b, waits for a; X owns a, waits for b (0 behind)"},
		{"three, and some behind", "a: X+ Z[c] W; b: Y+ X[a]; c: Z+ Y[b] V W", "Z owns"},
		{"oneself", "a: X+ X[a]", "X owns a, waits for a (0 behind)"},
		{"a claim of a hold that is released", "a: Z+ Y[b]; b: X+ Z[a]", ""},
		{"another session's hold of the name", "a: X+ Y[b]; b: Z+ X[a]", ""},
		{"a hold of the same session that no entry claims", "a: X+ Y; b: Y+ X", ""},
		{"two holds that fit one claim", "a: Xs+ Xs+ Y[b]; b: Y+ X[a]", ""},

		{"a waiter ahead that a reader waits for", "a: Zs+ X[b] Ys[c]; b: X+; c: Y+ W", ""},
		{"behind a writer that waits for the reader behind it", "a: Zs+ X[b] Ys[c]; b: X+ Z[a]; c: Y+", "Z owns a"},
		{"a reader behind a waiting writer", "a: Xs+ Y; b: X+ Z[c]; c: Z+ X[a,b]", "owns"},
		{"a reader waits for the writer that waits for a reader", "a: Xs+ W Vs[c]; c: V+ X[a]", "W owns a, waits for a"},
		{"readers do not wait for readers", "a: Xs+ Ys+; b: Y+ X[a]", ""},

		{"one permit of the two that are held is enough", "s/2: X1+ Y1+ Z1[b]; b: Z+ X[s]", ""},
		{"all permits are in the cycle", "s/2: X1+ Y1+ Z1[b]; b: Z+ X[s] Y[s]", "owns"},
		{"a big request waits for its own waiter", "s/3: X1+ Y3[b]; b: Y+ X[s]", "owns"},
		{"a big request waits, and a small one behind it", "s/3: X1+ Y3 Z1[b]; b: Z+ X[s]", "owns"},

		{"several locks at once, in one order", "a: X#1+ Y#2; b: X#1+ Y#2", ""},
		{"several locks, one of them another's", "a: X#1+ Y#2; b: W+ X#1 Y#2", ""},
		{"half of several locks, and the other half", "a: X#1+ Y[b]; b: Y+ X#1", "owns"},
	} {
		got := show(Find(queues(t, c.queues)))

		if c.want == "" {
			assert.Empty(t, got, c.name)
		} else {
			assert.Contains(t, got, c.want, c.name)
		}
	}
}

func TestStepsGoFromHoldToWait(t *testing.T) {
	all := Find(queues(t, "a: X+ Z[c] W; b: Y+ X[a]; c: Z+ Y[b] V W"))

	require.Len(t, all, 1)
	d := all[0]
	assert.Equal(t, 3, d.Behind, "W in two queues, and V")
	require.Len(t, d.Steps, 3)
	for i, s := range d.Steps {
		next := d.Steps[(i+1)%3]
		assert.Equal(t, s.Owns.Session, s.Waits.Session, "one owner")
		assert.Equal(t, s.For, next.In, "the next step owns what this one waits for")
		assert.Equal(t, s.In, d.Names()[i])
	}
	assert.Equal(t, []string{"a", "b", "c"}, d.Among)
	turned := Deadlock{Steps: append(d.Steps[1:], d.Steps[0])}
	assert.Equal(t, d.ID(), turned.ID())
	assert.ElementsMatch(t, []string{"a", "b", "c"}, d.Names())
}

// Each command under a lock has a session of its own.
func TestClaimOfAParentProcessIsLinked(t *testing.T) {
	at := func(all []schema.Queue, queue, entry int, host string, pid int, since int64) {
		e := &all[queue].Entries[entry]
		e.Host, e.PID, e.Since = host, pid, schema.At(time.Unix(since, 0))
	}
	for _, c := range []struct {
		name, host string
		pid        int
		since      int64
		found      int
	}{
		{"of the same host, and earlier", "web-1", 11, 15, 1},
		{"of another host", "web-2", 11, 15, 0},
		{"of the same process", "web-1", 10, 15, 0},
		{"asked for after it", "web-1", 11, 5, 0},
	} {
		all := queues(t, "a: P+ D[b]; b: Q+ C[a]")
		at(all, 0, 0, "web-1", 10, 10)
		at(all, 1, 1, c.host, c.pid, c.since)
		at(all, 1, 0, "web-3", 20, 10)
		at(all, 0, 1, "web-3", 21, 15)

		assert.Len(t, Find(all), c.found, c.name)
	}
	all := queues(t, "a: Ps+ Rs+ D[b]; b: Q+ C[a]")
	for i := range 2 {
		at(all, 0, i, "web-1", 10+i, 10)
	}
	at(all, 0, 2, "web-3", 21, 15)
	at(all, 1, 0, "web-3", 20, 10)
	at(all, 1, 1, "web-1", 12, 15)
	assert.Empty(t, Find(all), "either may be the parent's")
}

func TestTwoCyclesAreTwo(t *testing.T) {
	all := Find(queues(t, "a: X+ Y[b]; b: Y+ X[a]; c: U+ V[d]; d: V+ U[c]"))

	assert.Len(t, all, 2)
}

// With mutexes alone there is a deadlock if and only if the wait-for graph has a
// cycle. The test finds cycles in another way, on random queues that can come about.
func TestMutexesAreDeadlockedIfAndOnlyIfThereIsACycle(t *testing.T) {
	found := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		callers, names := 2+r.IntN(5), 2+r.IntN(4)
		waiting := make([][]int, names)    // of callers, the holder first
		holds := make([][]string, callers) // in the order of asking
		asked := make([]string, callers)   // what it holds, when it asked
		waits := make([]int, callers)      // for which lock
		for i := range waits {
			waits[i] = -1
		}
		for range 20 {
			c, n := r.IntN(callers), r.IntN(names)
			if waits[c] >= 0 || len(waiting[n]) > 0 && waiting[n][0] == c {
				continue
			}
			waiting[n] = append(waiting[n], c)
			asked[c] = strings.Join(holds[c], ",")
			if len(waiting[n]) == 1 {
				holds[c] = append(holds[c], string(rune('a'+n)))
			} else {
				waits[c] = n
			}
		}
		var texts []string
		for n, q := range waiting {
			var text strings.Builder
			text.WriteString(string(rune('a'+n)) + ":")
			for i, c := range q {
				text.WriteString(" " + string(rune('A'+c)))
				if i == 0 {
					text.WriteString("+")
				} else if asked[c] != "" {
					text.WriteString("[" + asked[c] + "]")
				}
			}
			texts = append(texts, text.String())
		}
		cyclic := false
		for c := range callers { // a waiter waits for exactly one caller
			at := c
			for range callers + 1 {
				if at < 0 || waits[at] < 0 {
					at = -1
					break
				}
				q := waiting[waits[at]]
				for i := range q {
					if q[i] == at {
						at = q[i-1]
						break
					}
				}
			}
			cyclic = cyclic || at >= 0
		}
		if cyclic {
			found++
		}

		got := Find(queues(t, strings.Join(texts, "; ")))

		require.Equal(t, cyclic, len(got) > 0, "seed %d: %s", seed, strings.Join(texts, "; "))
	}
	assert.Greater(t, found, 100, "too few were cycles")
}

func TestLongQueuesAreQuick(t *testing.T) {
	s := schema.NewQueue("s")
	s.Limit = 4
	m := schema.NewQueue("m")
	for i := range 2000 {
		s.Entries = append(s.Entries, schema.Entry{State: schema.Waiter, Place: i + 1, Mode: "weighted", Weight: 1, Token: int64(i + 1)})
		m.Entries = append(m.Entries, schema.Entry{State: schema.Waiter, Place: i + 1, Mode: "exclusive", Token: int64(i + 1)})
	}
	for i := range 4 {
		s.Entries[i].State = schema.Holder
	}
	m.Entries[0].State = schema.Holder

	assert.Empty(t, Find([]schema.Queue{s, m}))
}

func TestLinksAreTheClaimsOfEntries(t *testing.T) {
	var got []string
	for _, l := range Links(queues(t, "a: X+ Y[b]; b: Y+ Z[c] X[a]; c: Z+; d: W+ V[nothing]; e: U#7+ T#8; f: S+ U#7 T#8; g: T#8+ S")) {
		got = append(got, fmt.Sprintf("%s owns %s, waits for %s", l.Owns.Session, l.In, l.For))
	}

	assert.Equal(t, []string{
		"X owns a, waits for b", "Y owns b, waits for a", "Z owns c, waits for b",
		"U owns e, waits for f", "T owns g, waits for e", "T owns g, waits for f",
	}, got)
}
