package fairlock_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longestRecipe is how many lines of code a recipe takes in the README: fewer
// than ten.
const longestRecipe = 9

// blocks returns the Go code in a section of a Markdown text, each block as its
// lines without indentation.
func blocks(text, section string) [][]string {
	_, text, _ = strings.Cut(text, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var all [][]string
	for {
		_, rest, ok := strings.Cut(text, "```go\n")
		if !ok {
			return all
		}
		var code string
		code, text, _ = strings.Cut(rest, "```")
		all = append(all, trimmed(code))
	}
}

// trimmed returns the lines of a text without indentation, and no empty ones.
func trimmed(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// runsIn says whether a stands in b in one piece.
func runsIn(a, b []string) bool {
	for i := range len(b) - len(a) + 1 {
		if slices.Equal(a, b[i:i+len(a)]) {
			return true
		}
	}
	return false
}

func TestReadmeShowsWhatRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	paths, err := filepath.Glob("recipes/*/example_test.go")
	require.NoError(t, err)
	var examples [][]string
	for _, path := range append(paths, "example_test.go") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		examples = append(examples, trimmed(string(text)))
	}

	recipes := blocks(string(readme), "Recipes")

	assert.Len(t, recipes, 7)
	for _, code := range recipes {
		found := slices.ContainsFunc(examples, func(e []string) bool { return runsIn(code, e) })
		assert.True(t, found, "no example has this, line for line:\n%s", strings.Join(code, "\n"))
		assert.LessOrEqual(t, len(code), longestRecipe, "%s", strings.Join(code, "\n"))
	}
}
