package concurrency_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exported returns the exported names of the package in a folder, methods with their types.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool { //nolint:staticcheck // it has no build tags
		return !strings.HasSuffix(f.Name(), "_test.go")
	}, parser.SkipObjectResolution)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range packages["concurrency"].Files {
		for _, d := range f.Decls {
			for _, name := range declared(d) {
				_, method, _ := strings.Cut(name, ".")
				if ast.IsExported(name) && (method == "" || ast.IsExported(method)) {
					names[name] = true
				}
			}
		}
	}
	return names
}

// declared returns the names that a declaration declares.
func declared(d ast.Decl) (names []string) {
	if fn, ok := d.(*ast.FuncDecl); ok {
		if fn.Recv == nil {
			return []string{fn.Name.Name}
		}
		of := fn.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		return []string{of.(*ast.Ident).Name + "." + fn.Name.Name} //nolint:forcetypeassert // no type is generic
	}
	for _, spec := range d.(*ast.GenDecl).Specs { //nolint:forcetypeassert // there are no others
		switch s := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, s.Name.Name)
		case *ast.ValueSpec:
			for _, id := range s.Names {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

func TestAllThatEtcdsPackageExportsIsHere(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "go.etcd.io/etcd/client/v3/concurrency").Output()
	require.NoError(t, err)
	theirs, ours := exported(t, strings.TrimSpace(string(out))), exported(t, ".")

	require.Greater(t, len(theirs), 40)
	for name := range theirs {
		assert.True(t, ours[name], name)
		delete(ours, name)
	}
	assert.Equal(t, map[string]bool{"Mutex.Hold": true, "Election.Hold": true}, ours, "what is here only")
}
