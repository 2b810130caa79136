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

// public reports whether pkg.go.dev shows the file's package to users.
func (s source) public() bool {
	if s.test || s.syntax.Name.Name == "main" {
		return false
	}
	top, _, _ := strings.Cut(s.folder, "/")
	return top != "itest" && top != "bench" && top != "examples" && !strings.Contains("/"+s.folder+"/", "/internal/")
}

// names returns all names in a file: a doc comment that uses one of them is about what
// it names.
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

// shownComments returns the comments of a file that godoc shows: that of the package
// and those of exported declarations, their fields and their methods.
func shownComments(s source) []*ast.CommentGroup {
	all := []*ast.CommentGroup{s.syntax.Doc}
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				all = append(all, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				all = append(all, shownOfSpec(d, spec)...)
			}
		}
	}
	return all
}

func shownOfSpec(d *ast.GenDecl, spec ast.Spec) []*ast.CommentGroup {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() {
				return []*ast.CommentGroup{d.Doc, spec.Doc, spec.Comment}
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		all := []*ast.CommentGroup{d.Doc, spec.Doc, spec.Comment}
		var fields *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			return all
		}
		for _, f := range fields.List {
			if len(f.Names) == 0 || f.Names[0].IsExported() {
				all = append(all, f.Doc, f.Comment)
			}
		}
		return all
	}
	return nil
}

// retiredInDocs returns a sentence for each retired word in the doc comments of a file
// that godoc shows. Code in them is left out.
func retiredInDocs(s source, known map[string]bool) []string {
	var bad []string
	seen := map[*ast.CommentGroup]bool{nil: true}
	for _, group := range shownComments(s) {
		if seen[group] {
			continue
		}
		seen[group] = true
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

func TestGlossaryOfExportedDocs(t *testing.T) {
	atRoot(t)
	known := map[string]map[string]bool{}
	var public []source
	for _, s := range sources(t) {
		if !s.public() {
			continue
		}
		public = append(public, s)
		if known[s.folder] == nil {
			known[s.folder] = map[string]bool{}
		}
		for name := range names(s) {
			known[s.folder][name] = true
		}
	}
	require.Greater(t, len(public), 50)
	for _, s := range public {
		for _, sentence := range retiredInDocs(s, known[s.folder]) {
			t.Error(sentence)
		}
	}
}

func TestGlossaryOfPages(t *testing.T) {
	atRoot(t)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("*.md")
	require.NoError(t, err)
	pages = append(pages, more...)
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
func F() {}

func f() {}

// T is.
type T struct {
	A int // says it
	b int // somebody
}

// I is.
type I interface {
	// M tells.
	M()
}

// In the line.
const Told = 1
`
	s, err := parse("x.go", []byte(text))
	require.NoError(t, err)

	var found []string
	for _, sentence := range retiredInDocs(s, names(s)) {
		found = append(found, sentence[:strings.Index(sentence, ": write")])
	}
	assert.Equal(t, []string{`x.go:1: "gives locks back"`, `x.go:7: "told"`, `x.go:14: "says"`, `x.go:20: "tells"`, `x.go:24: "In the line"`}, found)
	assert.Equal(t, []string{`p.md:5: "give it back": write release`}, retiredInPage("p.md", "`whoever`\n```\nsays\n```\n[a](told.md) give it\nback\n"))
}
