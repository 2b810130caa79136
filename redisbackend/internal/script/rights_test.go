package script

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A script is not rolled back, so Open finds out before the first of them runs whether the login may use all
// commands.
func TestTheRightsThatOpenChecksAreThoseThatTheScriptsNeed(t *testing.T) {
	names := func(file, pattern string) []string {
		text, err := files.ReadFile("lua/" + file)
		require.NoError(t, err)
		var all []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
		return all
	}
	checked := names("rights.lua", `may\(\w, (?:S \.\. )?'([A-Z]+)'`)
	want := []string{"EVAL", "EVALSHA", "SUBSCRIBE", "UNSUBSCRIBE", "WAIT"} // of the clients
	all, err := files.ReadDir("lua")
	require.NoError(t, err)
	for _, f := range all {
		want = append(want, names(f.Name(), `call\('([A-Z]+)'`)...)
	}
	slices.Sort(want)
	slices.Sort(checked)

	assert.Equal(t, slices.Compact(want), checked)
}
