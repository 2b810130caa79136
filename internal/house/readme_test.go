package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The limits of README.md: it is read in five minutes, and links to the rest.
const (
	longestReadme     = 1000 // words, code included
	longestQuickstart = 25   // lines
	longestRecipe     = 4    // lines
)

// section returns the text of a section of README.md.
func section(t *testing.T, title string) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(readme), "\n## "+title+"\n")
	require.True(t, found, "README.md has no section %q", title)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func TestTheReadmeIsShort(t *testing.T) {
	atRoot(t)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)

	assert.LessOrEqual(t, len(strings.Fields(string(readme))), longestReadme)
}

// TestTheReadmeNamesTheTwoCommandsOfANewcomer: each with what it shows and how long it takes.
// What CI calls is what a newcomer calls.
func TestTheReadmeNamesTheTwoCommandsOfANewcomer(t *testing.T) {
	atRoot(t)
	text := func(path string) string {
		all, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(all)
	}

	assert.Regexp(t, `(?m)^make demo +# .*on an etcd that it starts; [0-9]+ s$`, text("README.md"))
	times := regexp.MustCompile(`(?m)^make test +# installs or finds what it needs, passes all tests; ([0-9]+ minutes)$`).FindStringSubmatch(text("README.md"))
	require.NotNil(t, times)
	assert.Regexp(t, "(?m)^\\| `make test` \\|.*\\| "+times[1]+";", text("docs/testing.md"))
	assert.Regexp(t, `(?m)^make test$`, text(".ci/run"))
	for _, target := range []string{"demo", "test"} {
		assert.Regexp(t, `(?m)^`+target+`:.* ## `, text("Makefile"))
	}
}

func TestTheRecipesOfTheReadmeAreShort(t *testing.T) {
	atRoot(t)
	recipes := goBlocks(section(t, "Recipes"))

	assert.Len(t, recipes, 5)
	for _, b := range recipes {
		assert.LessOrEqual(t, len(trimmed(b.code)), longestRecipe, b.code)
	}
}

func TestTheQuickstartRuns(t *testing.T) {
	atRoot(t)
	quickstart := goBlocks(section(t, "Quickstart"))
	require.NotEmpty(t, quickstart)
	program := quickstart[0].code

	assert.LessOrEqual(t, strings.Count(program, "\n"), longestQuickstart)
	out, err := exec.CommandContext(t.Context(), "go", "run", written(t, program)).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "settling orders with token 1\ndone: <nil>\n", string(out))
}

// TestTheQuickstartCompilesOnEveryService replaces the two lines of the program
// that each other block of the section has in another form.
func TestTheQuickstartCompilesOnEveryService(t *testing.T) {
	atRoot(t)
	quickstart := goBlocks(section(t, "Quickstart"))
	require.Len(t, quickstart, 5, "the program, and two lines for each service")
	backend := regexp.MustCompile(`(?m)^\t".*/\w+backend"$`)
	opening := regexp.MustCompile(`(?m)^\ts, err := .*$`)

	for _, b := range quickstart[1:] {
		assert.Len(t, trimmed(b.code), 2)
		require.Regexp(t, backend, b.code)
		require.Regexp(t, opening, b.code)
		program := backend.ReplaceAllLiteralString(quickstart[0].code, backend.FindString(b.code))
		program = opening.ReplaceAllLiteralString(program, opening.FindString(b.code))

		assertBuilds(t, program)
	}
}

// written returns the path of a file with that Go program.
func written(t *testing.T, program string) string {
	t.Helper()
	name := "main.go"
	if strings.Contains(program, "\"testing\"") {
		name = "page_test.go"
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(program), 0o600))
	return path
}

// assertBuilds checks that a complete Go file compiles in this module and passes go vet.
func assertBuilds(t *testing.T, file string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "vet", written(t, file)).CombinedOutput()
	assert.NoError(t, err, "%s\n%s", out, file)
}
