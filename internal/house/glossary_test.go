package house

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/glossary"
)

// names returns the exported names in a file: a comment that uses one of them is about
// what it names.
func names(s source) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && ast.IsExported(id.Name) {
			all[id.Name] = true
		}
		return true
	})
	return all
}

// retiredInComments returns a sentence for each retired word in the comments of a file.
// Code in them is left out.
func retiredInComments(s source, known map[string]bool) []string {
	var bad []string
	for _, group := range s.syntax.Comments {
		var text strings.Builder
		for _, c := range group.List {
			line := strings.TrimPrefix(c.Text, "//")
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "nolint") {
				line = ""
			}
			text.WriteString(line + "\n")
		}
		first := s.fset.Position(group.Pos()).Line
		for _, f := range glossary.Find(text.String(), known) {
			bad = append(bad, fmt.Sprintf("%s:%d: %s", s.path, first+f.Line-1, f))
		}
	}
	return bad
}

// retiredInPage returns a sentence for each retired word in the prose of a page.
func retiredInPage(path, text string) []string {
	var bad []string
	for _, f := range glossary.Find(glossary.Markdown(text), nil) {
		bad = append(bad, fmt.Sprintf("%s:%d: %s", path, f.Line, f))
	}
	return bad
}

func TestGlossaryOfComments(t *testing.T) {
	atRoot(t)
	all := sources(t)
	known := map[string]map[string]bool{}
	for _, s := range all {
		if known[s.folder] == nil {
			known[s.folder] = map[string]bool{}
		}
		for name := range names(s) {
			known[s.folder][name] = true
		}
	}
	require.Greater(t, len(all), 500)
	for _, s := range all {
		for _, sentence := range retiredInComments(s, known[s.folder]) {
			t.Error(sentence)
		}
	}
}

func TestGlossaryOfPages(t *testing.T) {
	atRoot(t)
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, sentence := range retiredInPage(page, string(text)) {
			t.Error(sentence)
		}
	}
}

func TestGlossaryFindsRetiredWords(t *testing.T) {
	const text = `// Package x gives
// locks back.
//
//	whoever := code
package x

// F is told. See Told and %beside.
func F() {} // told

type t struct {
	b int // somebody
}

// In the line.
const Told = 1
`
	s, err := parse("x.go", []byte(text))
	require.NoError(t, err)

	var found []string
	for _, sentence := range retiredInComments(s, names(s)) {
		found = append(found, sentence[:strings.Index(sentence, ": write")])
	}
	assert.Equal(t, []string{`x.go:1: "gives locks back"`, `x.go:7: "told"`, `x.go:8: "told"`, `x.go:11: "somebody"`, `x.go:14: "In the line"`}, found)
	assert.Equal(t, []string{`p.md:5: "give it back": write release`}, retiredInPage("p.md", "`whoever`\n```\nsays\n```\n[a](told.md) give it\nback\n"))
}
