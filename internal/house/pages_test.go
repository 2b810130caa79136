package house

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notCompiled is the line before a block of Go code that nothing here can compile,
// because it uses a library that is no dependency. Of a diff, that is the code before.
const notCompiled = "<!-- not compiled -->"

// A goBlock is a block of Go code in a Markdown text.
type goBlock struct {
	code    string
	foreign bool // it stands below notCompiled
}

// goBlocks returns all Go code in a Markdown text.
func goBlocks(text string) []goBlock { return blocks(text, "go") }

// blocks returns all blocks of a language in a Markdown text.
func blocks(text, language string) []goBlock {
	var all []goBlock
	for {
		before, rest, found := strings.Cut(text, "```"+language+"\n")
		if !found {
			return all
		}
		var code string
		code, text, _ = strings.Cut(rest, "```")
		all = append(all, goBlock{code, strings.HasSuffix(strings.TrimSpace(before), notCompiled)})
	}
}

// trimmed returns the lines of a text without indentation and without empty lines.
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

// compiled returns each file of examples, which other tests compile and run, as whole
// lines without indentation.
func compiled(t *testing.T) []string {
	t.Helper()
	paths := []string{"example_test.go", "etcdbackend/first_example_test.go", "pgbackend/example_test.go", "redisbackend/example_test.go", "fence/example_test.go", "ui/example_test.go", "bench/pages_test.go", "compat/concurrency/example_test.go"}
	for _, pattern := range []string{"recipes/*/example*_test.go", "fence/*/example_test.go", "adapters/*/example_test.go", "adapters/*/migrating_test.go", "itest/redisfence/main_test.go", "itest/casfence/main_test.go", "itest/leaderelection/hosts_test.go", "telemetry/*/example_test.go", "examples/*/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	var examples []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		examples = append(examples, whole(trimmed(string(text))))
	}
	return examples
}

// assertCompiled checks that an example contains this code, line for line.
func assertCompiled(t *testing.T, examples []string, page, code string) {
	t.Helper()
	found := slices.ContainsFunc(examples, func(e string) bool { return strings.Contains(e, whole(trimmed(code))) })
	assert.True(t, found, "%s: no example contains this, line for line:\n%s", page, code)
}

// TestEveryGoBlockOfThePagesCompiles: a block is a complete file, or part of an
// example. The quickstart of README.md has tests of its own.
func TestEveryGoBlockOfThePagesCompiles(t *testing.T) {
	atRoot(t)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	adapters, err := filepath.Glob("docs/adapters/*.md")
	require.NoError(t, err)
	pages = append(pages, adapters...)
	examples := compiled(t)

	checked := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := goBlocks(string(text))
		if page == "README.md" {
			blocks = blocks[len(goBlocks(section(t, "Quickstart"))):]
		}
		for _, b := range blocks {
			switch {
			case b.foreign:
				continue
			case strings.HasPrefix(b.code, "package "):
				assertBuilds(t, b.code)
			default:
				assertCompiled(t, examples, page, b.code)
			}
			checked++
		}
	}
	assert.Greater(t, checked, 10)
}

// gap is the line of a diff that stands for lines of both sides which it does not show.
const gap = "…"

// side returns the pieces of a diff before the change, whose lines begin with "-", or after it,
// whose lines begin with "+".
func side(diff, begin string) []string {
	var lines strings.Builder
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, begin) || strings.HasPrefix(line, " ") {
			lines.WriteString(line[1:])
		}
	}
	pieces := strings.Split(lines.String(), gap+"\n")
	return slices.DeleteFunc(pieces, func(p string) bool { return p == "" })
}

// TestBothSidesOfTheDiffsOfThePagesCompile: each piece of a diff, before and after the change, is
// part of an example.
func TestBothSidesOfTheDiffsOfThePagesCompile(t *testing.T) {
	atRoot(t)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	examples := compiled(t)

	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, b := range blocks(string(text), "diff") {
			pieces := side(b.code, "+")
			if !b.foreign {
				pieces = append(pieces, side(b.code, "-")...)
			}
			for _, piece := range pieces {
				assertCompiled(t, examples, page, piece)
			}
			checked++
		}
	}
	assert.Greater(t, checked, 5)
}

func TestTheFirstCodeOfThePackageCommentCompiles(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	comment, _, _ := strings.Cut(string(text), "\n// # ")

	var code strings.Builder
	for line := range strings.Lines(comment) {
		if line, found := strings.CutPrefix(line, "//\t"); found {
			code.WriteString(line)
		}
	}

	assert.NotEmpty(t, code.String())
	assertCompiled(t, compiled(t), "doc.go", code.String())
}

// testPage lists each promise with its tests.
const testPage = "docs/guarantees.md"

// TestEveryPromiseNamesItsTests: the last cell of each row of a table of testPage
// names tests, in backquotes. A name is that of a test function or of a case of a
// suite; "…" in it stands for what the suite puts there.
func TestEveryPromiseNamesItsTests(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile(testPage)
	require.NoError(t, err)
	tests := testNames(t)
	name := regexp.MustCompile("`([A-Z][A-Za-z…]{8,})`")

	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.Contains(line, "| Shown by |") {
			continue
		}
		rows++
		names := name.FindAllStringSubmatch(cells[len(cells)-1], -1)
		assert.NotEmpty(t, names, line)
		for _, n := range names {
			pattern := regexp.MustCompile(`\b` + strings.ReplaceAll(n[1], "…", `[%\w]*`) + `\b`)
			assert.True(t, pattern.MatchString(tests), "%s: no test is called %s", testPage, n[1])
		}
	}
	assert.Greater(t, rows, 10)
}

// TestTheMakefileNamesTests: with the name that a test had before, a step would leave it out.
func TestTheMakefileNamesTests(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	searches := regexp.MustCompile(`(?m)^SEARCHES := \^Test\((.*)\)`).FindStringSubmatch(string(text))
	require.NotNil(t, searches)
	for name := range strings.SplitSeq(searches[1], "|") {
		names = append(names, "Test"+name+"\n")
	}

	tests := "\n" + testNames(t)
	for _, name := range names {
		assert.Contains(t, tests, "\n"+name, "no test is called so")
	}
}

// TestHeavyModulesAreKnown: a step would build a module whose name in HEAVY is wrong, and
// the house rules one whose packages they compile.
func TestHeavyModulesAreKnown(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	list := regexp.MustCompile(`(?m)^HEAVY :=((?: \\\n\t\S+)+)$`).FindStringSubmatch(string(text))
	require.NotNil(t, list)

	for folder := range strings.FieldsSeq(strings.ReplaceAll(list[1], "\\", "")) {
		assert.FileExists(t, filepath.Join(folder, "go.mod"))
		assert.NotContains(t, usersPackages, filepath.ToSlash(filepath.Clean(folder)))
	}
}

// TestTestsThatPagesNameExist: a page names a test of Go in backquotes.
func TestTestsThatPagesNameExist(t *testing.T) {
	atRoot(t)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	tests := strings.Split(testNames(t), "\n")
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w{8,})`")
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, n := range name.FindAllStringSubmatch(string(text), -1) {
			assert.Contains(t, tests, n[1], page)
			found++
		}
	}
	assert.Greater(t, found, 20)
}

// testNames returns the names of all tests and cases, a line each.
func testNames(t *testing.T) string {
	t.Helper()
	var names strings.Builder
	test := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(|"([A-Z][\w%]{8,})"`)
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "recipetest") && !strings.Contains(path, "drivertest") &&
			!strings.HasPrefix(path, "itest") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, found := range test.FindAllStringSubmatch(string(text), -1) {
			fmt.Fprintln(&names, found[1]+found[2])
		}
	}
	return names.String()
}

// files returns the paths of all files of the project with that suffix.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, suffix):
			paths = append(paths, path)
		}
		return nil
	})
	require.NoError(t, err)
	return paths
}

var (
	fenced  = regexp.MustCompile("(?s)```.*?```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
)

// anchors returns the anchors of the headings of a Markdown text, as GitHub and
// most other renderers derive them.
func anchors(text string) []string {
	var all []string
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		a := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, h[1])
		if slices.Contains(all, a) {
			a += "-1"
		}
		all = append(all, a)
	}
	return all
}

// brokenLinks returns a sentence for each relative link of a page that leads nowhere.
func brokenLinks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var broken []string
	for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		target, err := url.Parse(l[1])
		if err == nil && target.Scheme != "" {
			continue
		}
		if err != nil {
			broken = append(broken, fmt.Sprintf("%s: %s is not a link", page, l[1]))
			continue
		}
		path := page
		if target.Path != "" {
			path = filepath.Join(filepath.Dir(page), target.Path)
		}
		linked, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		switch {
		case statErr == nil && info.IsDir():
		case err != nil:
			broken = append(broken, fmt.Sprintf("%s: %s does not exist", page, l[1]))
		case target.Fragment != "" && !slices.Contains(anchors(string(linked)), target.Fragment):
			broken = append(broken, fmt.Sprintf("%s: %s has no heading for #%s", page, path, target.Fragment))
		}
	}
	return broken
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	atRoot(t)
	pages := files(t, ".md")
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		assert.Empty(t, brokenLinks(t, page))
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	atRoot(t)
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# A page, `really`\n[a](page.md#a-page-really) [b](#a-page) [c](none.md) [d](https://example.org/none.md)\n```\n[e](none.md)\n```\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))

	assert.Len(t, brokenLinks(t, page), 2)
}
