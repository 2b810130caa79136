package telemetry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
)

// met is what a test of hand-offs sees.
type met struct {
	handoffs
	took []time.Duration
}

func (m *met) release(token session.Token, at time.Time, keep bool, locks ...string) {
	m.handoffs.release(entryID{"m1", token}, at, locks, func() bool { return keep }, func(_ grant, took time.Duration) {
		m.took = append(m.took, took)
	})
}

func (m *met) granted(token session.Token, at time.Time, keep bool, locks ...string) {
	if took, ok := m.handoffs.granted(entryID{"m1", token}, grant{at: at, locks: locks}, keep); ok {
		m.took = append(m.took, took)
	}
}

func TestHandOffIsFoundInEitherOrder(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		name string
		do   func(m *met)
		want []time.Duration
	}{
		{"release first", func(m *met) {
			m.release(1, at, true, "n")
			m.granted(1, at.Add(time.Second), true, "n")
		}, []time.Duration{time.Second}},
		{"grant reported first", func(m *met) {
			m.granted(1, at.Add(time.Second), true, "n")
			m.release(1, at, false, "n")
		}, []time.Duration{time.Second}},
		{"grant before the release was acknowledged", func(m *met) {
			m.granted(1, at.Add(-time.Millisecond), true, "n")
			m.release(1, at, false, "n")
		}, []time.Duration{0}},
		{"several grants around one release", func(m *met) {
			m.granted(1, at, true, "n")
			m.granted(1, at, true, "n")
			m.release(1, at, true, "n")
			m.granted(1, at.Add(time.Second), true, "n")
		}, []time.Duration{0, 0, time.Second}},
		{"nothing waits", func(m *met) {
			m.release(1, at, false, "n")
			m.granted(1, at, true, "n")
		}, nil},
		{"grant behind another process", func(m *met) {
			m.granted(1, at, false, "n")
			m.release(1, at, true, "n")
		}, nil},
		{"another entry", func(m *met) {
			m.release(1, at, true, "n")
			m.granted(2, at, true, "n")
		}, nil},
		{"another service", func(m *met) {
			m.release(1, at, true, "n")
			m.granted(1, at, true, "m")
		}, nil},
		{"one of several locks", func(m *met) {
			m.release(1, at, true, "a", "b")
			m.granted(1, at, true, "b", "c")
		}, []time.Duration{0}},
		{"too long ago", func(m *met) {
			m.release(1, at, true, "n")
			m.granted(1, at.Add(maxHandoff+1), true, "n")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &met{}
			c.do(m)

			assert.Equal(t, c.want, m.took)
		})
	}
}

// TestPartsOfHandOffsAreBounded: of releases that nothing follows, and of grants whose
// release does not come, the newest are kept.
func TestPartsOfHandOffsAreBounded(t *testing.T) {
	at := time.Unix(1000, 0)
	m := &met{}
	const n = 10 * maxParts
	for token := range session.Token(n) {
		m.release(token, at, true, "n")
		m.granted(token+n, at, true, "n")
		for range 3 { // readers
			m.granted(0, at, true, "m")
		}
	}
	assert.LessOrEqual(t, len(m.waiting), maxParts)
	parts := 0
	for _, handoff := range m.waiting {
		parts += len(handoff.grants) + 1
	}
	assert.LessOrEqual(t, parts, 2*maxParts)
	m.granted(n-1, at, true, "n")
	assert.Equal(t, []time.Duration{0}, m.took, "the newest is there")
}
