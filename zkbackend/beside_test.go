package zkbackend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func TestWhatLiesBesideALineIsOnePart(t *testing.T) {
	l := newLayout("/fairlock", LayoutCurator)
	for name, want := range map[string]string{
		"gpu":     "/fairlock/%beside/gpu",
		"a/b":     "/fairlock/%beside/a%2Fb",
		"a%2Fb":   "/fairlock/%beside/a%252Fb",
		"a//b":    "/fairlock/%beside/a%2F%%2Fb",
		"/":       "/fairlock/%beside/%%2F%",
		".":       "/fairlock/%beside/%2E",
		"%beside": "/fairlock/%beside/%25beside",
	} {
		assert.Equal(t, want, l.beside(name), "%q", name)
	}
	assert.Equal(t, "/%beside/a/limit", newLayout("/", LayoutCurator).limit("a"))
}

func TestAnAdditionLeavesTheMetaAlone(t *testing.T) {
	m := driver.Meta{Kind: "rwlock", Host: "web-2", Since: time.UnixMilli(1_800_000_000_123), Holds: []string{"}"}}
	for _, a := range []addition{{}, {Token: 1 << 62}, {Admitted: true}, {Token: -1, Admitted: true}} {
		b := a.onto(m.Encode())
		got, ok := driver.DecodeMeta(b)
		require.True(t, ok, "%s", b)
		assert.Equal(t, m, got)
		assert.Equal(t, a, readAddition(b))
	}
	for _, b := range []string{"", "{}", "x", `{"token":7}`, `{"v":1,"token":"x"}`} {
		assert.Zero(t, readAddition([]byte(b)), b)
		assert.Equal(t, b[:min(len(b), 2)], string(addition{Admitted: true}.onto([]byte(b)[:min(len(b), 2)])), "only onto an object with something in it")
	}
}

func TestLedgerLines(t *testing.T) {
	for _, l := range []ledgerLine{{"0123456789abcdef", driver.PastClean}, {"0123456789abcdef", driver.PastDied}} {
		assert.Equal(t, l, readLedgerLine(l.bytes()))
	}
	assert.Equal(t, ledgerLine{"", driver.PastUnknown}, readLedgerLine(nil))
	assert.Equal(t, ledgerLine{"x", driver.PastUnknown}, readLedgerLine([]byte("x y z")))
}

func TestTheLowestNumberIsFree(t *testing.T) {
	for want, taken := range [][]string{{}, {"0"}, {"1", "0"}, {"2", "0", "1", "4"}, {"3", "2", "1", "0", "x"}} {
		assert.Equal(t, want, lowest(taken))
	}
	assert.Equal(t, 0, lowest([]string{"1", "00"}))
}
