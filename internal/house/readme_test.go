package house

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
	return allBlocks(text)
}

// allBlocks returns all Go code in a Markdown text.
func allBlocks(text string) [][]string {
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

// whole joins lines so that each begins and ends with a line break.
func whole(lines []string) string { return "\n" + strings.Join(lines, "\n") + "\n" }

// compiled returns the text of each file of examples, which the tests compile, as
// whole lines without indentation.
func compiled(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("recipes/*/example_test.go")
	require.NoError(t, err)
	var examples []string
	for _, path := range append(paths, "example_test.go", "etcdbackend/first_example_test.go") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		examples = append(examples, whole(trimmed(string(text))))
	}
	return examples
}

// assertCompiles checks that an example has this code, line for line.
func assertCompiles(t *testing.T, examples, code []string) {
	t.Helper()
	found := slices.ContainsFunc(examples, func(e string) bool { return strings.Contains(e, whole(code)) })
	assert.True(t, found, "no example has this, line for line:\n%s", strings.Join(code, "\n"))
}

func TestEveryGoBlockOfTheReadmeCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)

	all := allBlocks(string(readme))

	assert.NotEmpty(t, all)
	examples := compiled(t)
	for _, code := range all {
		assertCompiles(t, examples, code)
	}
}

func TestTheFirstCodeOfThePackageCommentCompiles(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	comment, _, _ := strings.Cut(string(text), "\n// # ")

	var code []string
	for line := range strings.Lines(comment) {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			code = append(code, strings.TrimSpace(line))
		}
	}

	assert.NotEmpty(t, code)
	assertCompiles(t, compiled(t), code)
}

func TestTheRecipesOfTheReadmeAreShort(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)

	recipes := blocks(string(readme), "Recipes")

	assert.Len(t, recipes, 7)
	for _, code := range recipes {
		assert.LessOrEqual(t, len(code), longestRecipe, "%s", strings.Join(code, "\n"))
	}
}
