package telemetrytest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// namings are the cases of the names of locks.
func namings() []testCase {
	return []testCase{
		{"ThousandNamesShareOneValueBeyondTheFirst", nil, thousand},
		{"MaxNamesIsAnOption", &telemetry.Options{MaxNames: 1}, one},
		{"NoNameIsShownIfMaxNamesIsNegative", &telemetry.Options{MaxNames: -1}, none},
		{"NamesAreMapped", &telemetry.Options{Name: mapped, MaxNames: 2}, mappedNames},
		{"OddNamesAreShown", nil, odd},
	}
}

// cycles are the samples of a lock that was acquired n times and released at once.
func cycles(name string, n int) []Sample {
	times := make([]float64, n)
	return []Sample{
		measured(telemetry.AcquireDuration, outcome(name, "granted"), times...),
		measured(telemetry.HoldDuration, end(name, "released"), times...),
	}
}

func thousand(x *fixture) {
	var want []Sample
	for i := range 1000 {
		name := fmt.Sprintf("orders/%d", i)
		x.unlock(x.lock(x.s, name))
		if i < telemetry.DefaultMaxNames {
			want = append(want, cycles(name, 1)...)
		}
	}
	want = append(want, cycles(telemetry.Other, 1000-telemetry.DefaultMaxNames)...)
	x.shows(x.live(want...)...)
}

func one(x *fixture) {
	for _, name := range []string{"a", "b", "a", "c"} {
		x.unlock(x.lock(x.s, name))
	}
	x.shows(x.live(append(cycles("a", 2), cycles(telemetry.Other, 2)...)...)...)
}

func none(x *fixture) {
	x.unlock(x.lock(x.s, "a"))
	x.shows(x.live(cycles(telemetry.Other, 1)...)...)
}

// mapped is an Options.Name.
func mapped(lock string) string {
	kind, _, _ := strings.Cut(lock, "/")
	switch kind {
	case "panics":
		panic(lock)
	case "empty":
		return ""
	}
	return kind
}

func mappedNames(x *fixture) {
	for _, name := range []string{"orders/1", "orders/2", "panics", "empty", "users/1", "third"} {
		x.unlock(x.lock(x.s, name))
	}
	want := append(cycles("orders", 2), cycles("users", 1)...)
	x.shows(x.live(append(want, cycles(telemetry.Other, 3)...)...)...)
}

// odd has names that an exporter's format could break on. Those that a lock cannot have
// are refused, and counted all the same.
func odd(x *fixture) {
	var want []Sample
	for _, name := range []string{
		"quoted \"name\" \\", "a\nb", "{le=\"1\"} 5", "<b>&amp;", "ключ 鍵 🔑", "tab\tand\x7f", "\u202egnp", "nul\x00", "\xff\xfe", "", strings.Repeat("é", 300),
		strings.Repeat("x", 10_000),
	} {
		shown := telemetry.Printable(name)
		assert.True(x.t, utf8.ValidString(shown))
		if shown == "" {
			shown = telemetry.Other
		}
		h, err := mutex.New(x.s, name).Lock(x.t.Context())
		if err != nil {
			require.ErrorIs(x.t, err, session.ErrInvalidName)
			want = append(want, measured(telemetry.AcquireDuration, outcome(shown, "refused"), 0))
			continue
		}
		x.unlock(h)
		want = append(want, cycles(shown, 1)...)
	}
	x.shows(x.live(want...)...)
}

// underLoad has many goroutines lock and give up, in real time, while the exporter is
// read. The race detector sees more than the counts do.
func underLoad(t *testing.T, open Open) {
	const workers, each = 16, 50
	x := newFixture(t, open, &telemetry.Options{MaxNames: 2}, map[telemetry.ID]bool{})
	second := x.open(x.store.NewClient())
	var wg sync.WaitGroup
	for i := range workers {
		s := []*session.Session{x.s, second}[i%2]
		wg.Go(func() {
			for n := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if n%5 == 0 {
					cancel()
				}
				if h, err := mutex.New(s, fmt.Sprint(n%3)).Lock(ctx); err == nil {
					if err := h.Unlock(); err != nil { // its answer is late
						assert.ErrorIs(t, err, session.ErrReleasePending)
					}
				}
				cancel()
				if n%10 == 0 {
					x.ex.Read()
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, second.Close())
	x.close()
	outcomes := map[string]float64{}
	ended, handOffs := 0, 0
	for _, s := range x.ex.Read() {
		n := 0
		for _, count := range s.Counts {
			n += int(count)
		}
		switch s.ID {
		case telemetry.AcquireDuration:
			outcomes[s.Values.Outcome] += float64(n)
		case telemetry.HoldDuration:
			assert.Contains(t, []string{telemetry.EndReleased, telemetry.EndPending}, s.Values.End)
			ended += n
		case telemetry.HandoffDuration:
			handOffs += n
		default:
		}
	}
	assert.Equal(t, map[string]float64{"granted": workers * each * 4 / 5, "gave_up": workers * each / 5}, outcomes)
	assert.Equal(t, workers*each*4/5, ended)
	assert.LessOrEqual(t, handOffs, workers*each*4/5)
}
