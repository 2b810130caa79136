package house

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hiddenFailpoints names each failpoint that is checked within another condition, and not
// first in an if or a case of its own.
func hiddenFailpoints(s source) []string {
	open := map[ast.Node]bool{}
	var bad []string
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if isFailpoint(leftmost(n.Cond)) {
				open[n.Cond] = true
			}
		case *ast.CaseClause:
			if len(n.List) == 1 && isFailpoint(leftmost(n.List[0])) {
				open[n.List[0]] = true
			}
		}
		if open[n] {
			return false
		}
		if isFailpoint(n) {
			bad = append(bad, s.at(n.Pos())+": the failpoint is within another condition: give it an if of its own")
		}
		return true
	})
	return bad
}

// leftmost returns what a condition begins with.
func leftmost(cond ast.Expr) ast.Expr {
	for {
		and, ok := cond.(*ast.BinaryExpr)
		if !ok {
			return cond
		}
		cond = and.X
	}
}

// isFailpoint reports whether n is a call of failpoint.On.
func isFailpoint(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	on, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := on.X.(*ast.Ident)
	return ok && pkg.Name == "failpoint" && on.Sel.Name == "On"
}

func TestFailpointsStandInStatementsOfTheirOwn(t *testing.T) {
	atRoot(t)
	for _, s := range sources(t) {
		if !s.shipped() {
			continue
		}
		for _, sentence := range hiddenFailpoints(s) {
			t.Error(sentence)
		}
	}
}

func TestHiddenFailpointsAreFound(t *testing.T) {
	const hidden = "x.go:2: the failpoint is within another condition: give it an if of its own"
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"alone", "if failpoint.On(p) { return }", nil},
		{"with what else it needs", "if failpoint.On(p) && (a || b) { return }", nil},
		{"two", "if failpoint.On(p) || failpoint.On(q) { return }", nil},
		{"a case of its own", "switch { case a: case failpoint.On(p): }", nil},
		{"in a branch of another", "if a { if failpoint.On(p) { return } }", nil},
		{"last", "if a && !failpoint.On(p) { return }", []string{hidden}},
		{"inverted", "if !failpoint.On(p) { return }", []string{hidden}},
		{"one of two cases", "switch { case a, failpoint.On(p): }", []string{hidden}},
		{"a result", "return a || failpoint.On(p)", []string{hidden}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parse("x.go", []byte("package x\nfunc f() bool { "+c.body+"; return a }\n"))
			require.NoError(t, err)

			assert.Equal(t, c.want, hiddenFailpoints(s))
		})
	}
}
