package owner

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMetaSurvivesTheStore(t *testing.T) {
	m := Meta{
		Kind: "mutex", Host: "web-2", PID: 4121, Label: "nächtlich", Since: time.UnixMilli(1_800_000_000_123),
		Holds: []string{"a", "b/c"}, TTL: 15 * time.Second, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	got, ok := DecodeMeta(m.Encode())

	require.True(t, ok)
	assert.Equal(t, m, got)
}

func TestMetaAlwaysFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Meta{
			Kind: rapid.String().Draw(t, "kind"), Host: rapid.String().Draw(t, "host"), PID: rapid.Int().Draw(t, "pid"),
			Label: strings.Repeat(rapid.SampledFrom([]string{"x", "\x00", "<", "é", "\xff"}).Draw(t, "unit"), rapid.IntRange(0, 600).Draw(t, "len")),
			Holds: rapid.SliceOf(rapid.StringN(0, 600, -1)).Draw(t, "holds"),
			Trace: strings.Repeat(rapid.SampledFrom([]string{"0", "<"}).Draw(t, "digit"), rapid.IntRange(0, MaxTrace).Draw(t, "digits")),
		}
		if rapid.Bool().Draw(t, "wide") {
			m.Kind = strings.Repeat("<", 200)
		}
		b := m.Encode()
		if len(b) > MaxMeta {
			t.Fatalf("%d bytes", len(b))
		}
		if _, ok := DecodeMeta(b); !ok {
			t.Fatalf("cannot be read: %q", b)
		}
	})
}

// TestOnlyWhatCanBeATraceIsStoredAndShown: entries are shown on terminals and pages.
func TestOnlyWhatCanBeATraceIsStoredAndShown(t *testing.T) {
	for _, s := range []string{"", "00-ab-cd-01", "~!", strings.Repeat("x", MaxTrace)} {
		assert.Equal(t, s, TraceOf(s))
	}
	for _, s := range []string{"a b", "a\x1b[2J", "\x7f", "é", "\xff", strings.Repeat("x", MaxTrace+1)} {
		assert.Empty(t, TraceOf(s), "%q", s)
		assert.NotContains(t, string(Meta{Trace: s}.Encode()), "trace")
		raw, err := json.Marshal(metaV1{V: 1, Trace: s})
		require.NoError(t, err)
		m, ok := DecodeMeta(raw)
		require.True(t, ok)
		assert.Empty(t, m.Trace, "%q", s)
	}
}

// TestTTLThatCannotBeIsNone: another program may have stored it.
func TestTTLThatCannotBeIsNone(t *testing.T) {
	for _, ms := range []string{"-1", "0", "9223372036854775807"} {
		m, ok := DecodeMeta([]byte(`{"v":1,"ttl":` + ms + `}`))
		require.True(t, ok)
		assert.Zero(t, m.TTL, ms)
	}
}

// TestNumberThatIsNoProcessIsNone: operators paste it behind kill, and -1 means every process.
func TestNumberThatIsNoProcessIsNone(t *testing.T) {
	for pid, known := range map[string]bool{
		"1": true, "2147483647": true, "0": false, "-1": false, "-812": false, "2147483648": false, "4294967295": false, "-9223372036854775808": false,
	} {
		m, ok := DecodeMeta([]byte(`{"v":1,"host":"db-1","pid":` + pid + `}`))
		require.True(t, ok, pid)
		assert.Equal(t, "db-1", m.Host, pid)
		assert.Equal(t, known, m.PID != 0, pid)
	}
}

// TestTimeThatHasNoFormIsNone: JSON of a queue could not be written with it.
func TestTimeThatHasNoFormIsNone(t *testing.T) {
	for ms, known := range map[string]bool{"253402300799999": true, "253402300800000": false, "9223372036854775807": false} {
		m, ok := DecodeMeta([]byte(`{"v":1,"since":` + ms + `,"granted":` + ms + `}`))
		require.True(t, ok)
		assert.Equal(t, known, !m.Since.IsZero(), ms)
		assert.Equal(t, known, !m.Granted.IsZero(), ms)
		_, err := json.Marshal([]time.Time{m.Since.UTC(), m.Granted.UTC()})
		require.NoError(t, err)
	}
}

func TestBrokenMetaIsNoMeta(t *testing.T) {
	for _, b := range []string{
		"", "null", "[]", "{}", `{"v":0}`, `{"v":-1}`, `{"v":1`, `{"v":"1"}`, "\xff\xfe", `{"v":1,"pid":"x"}`,
		"{" + strings.Repeat(" ", 1<<20) + "}",
	} {
		m, ok := DecodeMeta([]byte(b))
		assert.False(t, ok, "%.20q", b)
		assert.Zero(t, m)
	}
}

func TestNewerMetaIsRead(t *testing.T) {
	m, ok := DecodeMeta([]byte(`{"v":7,"host":"h","colour":"red"}`))

	require.True(t, ok, "old and new processes share a queue")
	assert.Equal(t, Meta{Host: "h"}, m)
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add([]byte(`{"v":1,"kind":"mutex","host":"h","pid":1,"since":5,"holds":["a"]}`))
	f.Add([]byte(`{"v":1,"since":9223372036854775807}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := DecodeMeta(b)
		if !ok {
			return
		}
		again, ok := DecodeMeta(m.Encode())
		if !ok {
			t.Fatalf("cannot read own form of %q", b)
		}
		if utf8.ValidString(m.Kind) && len(m.Kind) <= 100 && again.Kind != m.Kind {
			t.Fatalf("kind %q became %q", m.Kind, again.Kind)
		}
	})
}
