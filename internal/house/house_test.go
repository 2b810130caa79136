package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	longestFile     = 400 // lines
	longestFunction = 70  // lines, without its doc comment
)

// agreedState are the package variables that are allowed, each for a reason.
var agreedState = []string{
	"ui.pageFiles",                       // go:embed needs a variable, and nothing can change it
	"redisbackend/internal/script.files", // the same
	"session/driver.origin",              // what monotonic time counts from: set once, and all clocks have to share it
}

// apart are the modules of measures, of long runs and of examples with parts of their own. Most
// rules of this package do not hold there.
var apart = []string{"bench", "examples/asynq", "examples/fencing", "examples/ops", "examples/river", "robustness", "tools", "ui/browser"}

// A source is one Go file.
type source struct {
	path   string // relative to the root
	folder string
	test   bool
	lines  int
	fset   *token.FileSet
	syntax *ast.File
}

// shipped reports whether users' programs link the file.
func (s source) shipped() bool {
	r, ok := ruleFor(importRules, s.folder)
	return ok && !r.unshipped && !s.test
}

func (s source) imports() []string {
	var paths []string
	for _, spec := range s.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser has accepted it
		}
		paths = append(paths, path)
	}
	return paths
}

func (s source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

// sources parses every Go file but those of the modules apart, whatever its build constraints.
func sources(t *testing.T) []source {
	t.Helper()
	return parsed(t, func(path string) bool { return isApart(path) || ignored(path) })
}

// everySource parses every Go file of every module of the repository.
func everySource(t *testing.T) []source {
	t.Helper()
	return parsed(t, ignored)
}

// parsed parses every Go file but those in folders to skip.
func parsed(t *testing.T, skip func(path string) bool) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && skip(path):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(path), text)
		all = append(all, f)
		return err
	})
	require.NoError(t, err)
	return all
}

// isApart reports whether a folder is one of the modules apart.
func isApart(path string) bool { return slices.Contains(apart, filepath.ToSlash(path)) }

// ignored reports whether go's tools leave a folder out of every module, or the folder is bin, which
// has what the Makefile has built or unpacked.
func ignored(path string) bool {
	name := filepath.Base(path)
	return filepath.ToSlash(path) == "bin" || name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_'
}

func parse(path string, text []byte) (source, error) {
	s := source{
		path:   path,
		folder: filepath.ToSlash(filepath.Dir(path)),
		test:   strings.HasSuffix(path, "_test.go"),
		lines:  bytes.Count(text, []byte("\n")),
		fset:   token.NewFileSet(),
	}
	var err error
	s.syntax, err = parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// tooLong returns a sentence if the file is too long, and one for each of its functions that
// is.
func tooLong(s source) []string {
	var bad []string
	if s.lines > longestFile {
		bad = append(bad, fmt.Sprintf("%s has %d lines, more than %d", s.path, s.lines, longestFile))
	}
	for _, d := range s.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if lines > longestFunction {
			bad = append(bad, fmt.Sprintf("%s: func %s has %d lines, more than %d", s.at(f.Pos()), f.Name.Name, lines, longestFunction))
		}
	}
	return bad
}

// packageState names each init function, and each variable of the package, except error
// sentinels, compiled regexps and interface assertions.
func packageState(s source) []string {
	var bad []string
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				bad = append(bad, s.at(d.Pos())+": func init")
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || d.Tok != token.VAR {
					continue
				}
				for i, name := range v.Names {
					if !constant(v, i) && !slices.Contains(agreedState, s.folder+"."+name.Name) {
						bad = append(bad, fmt.Sprintf("%s: var %s is package state", s.at(name.Pos()), name.Name))
					}
				}
			}
		}
	}
	return bad
}

// constant reports whether the i-th variable of v never changes.
func constant(v *ast.ValueSpec, i int) bool {
	name := v.Names[i].Name
	if name == "_" {
		return true
	}
	if len(v.Values) != len(v.Names) {
		return false
	}
	isError := strings.HasPrefix(strings.ToLower(name), "err")
	switch value := v.Values[i].(type) {
	case *ast.SelectorExpr: // another package's sentinel under our name
		return isError && strings.HasPrefix(value.Sel.Name, "Err")
	case *ast.CallExpr:
		switch types.ExprString(value.Fun) {
		case "errors.New", "fmt.Errorf":
			return isError
		case "regexp.MustCompile":
			return true
		}
	}
	return false
}

// undocumented names what users see of the file and that has no comment: exported
// declarations, methods of exported types, methods of exported interfaces, and the fields of
// structs called …Options.
func undocumented(s source) []string {
	var bad []string
	add := func(pos token.Pos, what string) {
		bad = append(bad, fmt.Sprintf("%s: %s has no doc comment", s.at(pos), what))
	}
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				add(d.Pos(), "func "+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				undocumentedSpec(d, spec, add)
			}
		}
	}
	return bad
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec, add func(token.Pos, string)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				add(name.Pos(), name.Name)
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		if spec.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			add(spec.Pos(), "type "+spec.Name.Name)
		}
		for _, f := range described(spec) {
			for _, name := range f.Names {
				if name.IsExported() && f.Doc == nil && f.Comment == nil {
					add(name.Pos(), spec.Name.Name+"."+name.Name)
				}
			}
		}
	}
}

// described returns the fields or methods of a type that need a comment each.
func described(spec *ast.TypeSpec) []*ast.Field {
	switch t := spec.Type.(type) {
	case *ast.InterfaceType:
		return t.Methods.List
	case *ast.StructType:
		if strings.HasSuffix(spec.Name.Name, "Options") {
			return t.Fields.List
		}
	}
	return nil
}

// exportedReceiver reports whether f is a function, or a method that users can
// see.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name // the first is the type, later ones are its parameters
		}
		return name == ""
	})
	return ast.IsExported(name)
}

func TestFilesAndFunctionsStayShort(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, sentence := range tooLong(s) {
			t.Error(sentence)
		}
	}
}

func TestShippedPackagesHaveNoInitAndNoState(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		if !s.shipped() {
			continue
		}
		for _, sentence := range packageState(s) {
			t.Error(sentence)
		}
	}
}

func TestEveryExportOfShippedPackagesHasADocComment(t *testing.T) {
	atRoot(t)
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if !s.shipped() {
			continue
		}
		documented[s.folder] = documented[s.folder] || s.syntax.Doc != nil
		for _, sentence := range undocumented(s) {
			t.Error(sentence)
		}
	}
	for folder, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", folder)
		}
	}
}

func TestHouseRulesForbid(t *testing.T) {
	atRoot(t)
	body := func(lines int) string { return strings.Repeat("\n", lines) }
	for _, c := range []struct {
		name  string
		check func(source) []string
		text  string
		want  []string
	}{
		{"file too long", tooLong, body(399), []string{"x.go has 401 lines, more than 400"}},
		{"file as long as may be", tooLong, body(398), nil},
		{"function too long", tooLong, "func f() {" + body(70) + "}", []string{"x.go:2: func f has 71 lines, more than 70"}},
		{"function as long as may be", tooLong, "func f() {" + body(69) + "}", nil},

		{"init", packageState, "func init() {}", []string{"x.go:2: func init"}},
		{"method called init", packageState, "func (T) init() {}", nil},
		{"counter", packageState, "var n int", []string{"x.go:2: var n is package state"}},
		{"map", packageState, "var m = map[int]int{}", []string{"x.go:2: var m is package state"}},
		{"error by another name", packageState, `var gone = errors.New("gone")`, []string{"x.go:2: var gone is package state"}},
		{"two from one call", packageState, "var a, b = f()", []string{"x.go:2: var a is package state", "x.go:2: var b is package state"}},
		{"exported function value", packageState, "var F = other.F", []string{"x.go:2: var F is package state"}},
		{"another package's sentinel", packageState, "var ErrGone = driver.ErrGone", nil},
		{"sentinel", packageState, `var ErrGone, errOld = errors.New("gone"), fmt.Errorf("old")`, nil},
		{"regexp", packageState, "var word = regexp.MustCompile(`a`)", nil},
		{"assertion", packageState, "var _ I = (*T)(nil)", nil},

		{"func", undocumented, "func F() {}", []string{"x.go:2: func F has no doc comment"}},
		{"method", undocumented, "func (t *T[K, V]) M() {}", []string{"x.go:2: func M has no doc comment"}},
		{"method of an unexported type", undocumented, "func (t *t[K]) M() {}", nil},
		{"type", undocumented, "type T int", []string{"x.go:2: type T has no doc comment"}},
		{"type in a group", undocumented, "// Several.\ntype (\n\tT int\n)", []string{"x.go:4: type T has no doc comment"}},
		{"const", undocumented, "const C = 1", []string{"x.go:2: C has no doc comment"}},
		{"const in a group", undocumented, "// Several.\nconst (\n\tC = 1\n)", nil},
		{"const with its line", undocumented, "const C = 1 // One.", nil},
		{"interface method", undocumented, "// I is.\ntype I interface{ M() }", []string{"x.go:3: I.M has no doc comment"}},
		{"option", undocumented, "// Options are.\ntype Options struct{ TTL int }", []string{"x.go:3: Options.TTL has no doc comment"}},
		{"field", undocumented, "// T is.\ntype T struct{ TTL int }", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parse("x.go", []byte("package x\n"+c.text+"\n"))
			require.NoError(t, err)

			assert.Equal(t, c.want, c.check(s))
		})
	}
}
