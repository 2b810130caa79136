//go:build unix

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
)

// The workers that demo starts are this test's own program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-worker" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestNoMoneyIsLost although a worker is stopped, outlived and woken, another one is killed, and the
// lock service fails over. Without the two calls of Touch the woken worker would undo a payment.
func TestNoMoneyIsLost(t *testing.T) {
	var out strings.Builder
	defer func() { t.Log("\n" + out.String()) }()

	require.NoError(t, demo(hang.Context(t), &out))

	before, after, found := strings.Cut(out.String(), "killed worker b and the leader of etcd")
	require.True(t, found)
	assert.Regexp(t, `(?m)^a: .* refused: sqlfence: "account/\w+": fence: stale token: exclusive token \d+ refused: token \d+ was seen$`, before)
	assert.GreaterOrEqual(t, len(regexp.MustCompile(`(?m)^[ac]: .* paid$`).FindAllString(after, -1)), 10-1, "one of b may have been on its way")
	assert.True(t, strings.HasSuffix(after, "the accounts have 3000, of 3000\n"), after)
}

func TestTheWorkerIsShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	assert.LessOrEqual(t, strings.Count(string(text), "\n"), 150)
}
