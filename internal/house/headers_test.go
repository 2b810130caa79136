package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rule for headers: no statement hides in the header of an if or a switch. A reader who
// looks for the place where a variable changes reads the left edge of the lines, and finds
// it there. Two declarations stay, because every Go reader knows them as one thing and they
// change nothing outside the if:
//
//	if x, err := f(); err != nil {
//	if v, ok := m[k]; ok {
//
// The condition has to begin with the test of the error or of the ok, negated or not, and may
// go on after it. The comma-ok is that of the language (map, type assertion, channel) or of
// errors.AsType: what the second result of another function means stands only in its doc.

// hidden names each statement that hides in the header of an if or a switch.
func hidden(s source) []string {
	var bad []string
	add := func(keyword string, n ast.Stmt) {
		bad = append(bad, fmt.Sprintf("%s: the header of the %s hides %q: give it a line of its own", s.at(n.Pos()), keyword, s.code(n)))
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if n.Init != nil && !known(n.Init, n.Cond) {
				add("if", n.Init)
			}
		case *ast.SwitchStmt:
			if n.Init != nil {
				add("switch", n.Init)
			}
		case *ast.TypeSwitchStmt:
			if n.Init != nil {
				add("switch", n.Init)
			}
		}
		return true
	})
	return bad
}

// code returns what a statement begins with.
func (s source) code(n ast.Stmt) string {
	assign, ok := n.(*ast.AssignStmt)
	if !ok {
		return strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast.")
	}
	var left []string
	for _, x := range assign.Lhs {
		left = append(left, types.ExprString(x))
	}
	return strings.Join(left, ", ") + " " + assign.Tok.String()
}

// known reports whether a header is one of the two that every reader knows.
func known(init ast.Stmt, cond ast.Expr) bool {
	assign, ok := init.(*ast.AssignStmt)
	if !ok || assign.Tok != token.DEFINE || len(assign.Rhs) != 1 {
		return false
	}
	last := name(assign.Lhs[len(assign.Lhs)-1])
	return isError(last) && testsNil(firstTest(cond), last) ||
		len(assign.Lhs) == 2 && commaOK(assign.Rhs[0]) && testsTruth(firstTest(cond), last)
}

// firstTest returns what a condition looks at first.
func firstTest(cond ast.Expr) ast.Expr {
	for {
		both, ok := ast.Unparen(cond).(*ast.BinaryExpr)
		if !ok || both.Op != token.LAND && both.Op != token.LOR {
			return ast.Unparen(cond)
		}
		cond = both.X
	}
}

// isError reports whether a variable is called as errors are.
func isError(variable string) bool {
	return strings.HasPrefix(variable, "err") || strings.HasSuffix(variable, "Err")
}

// testsNil reports whether a condition compares a variable with nil.
func testsNil(cond ast.Expr, variable string) bool {
	c, ok := cond.(*ast.BinaryExpr)
	return ok && (c.Op == token.EQL || c.Op == token.NEQ) && name(c.X) == variable && name(c.Y) == "nil"
}

// testsTruth reports whether a condition is a variable, or its negation.
func testsTruth(cond ast.Expr, variable string) bool {
	if not, ok := cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		cond = not.X
	}
	return name(cond) == variable
}

// commaOK reports whether an expression may have a second value, true if there is a first.
func commaOK(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.IndexExpr, *ast.TypeAssertExpr:
		return true
	case *ast.UnaryExpr:
		return x.Op == token.ARROW
	case *ast.CallExpr:
		generic, ok := x.Fun.(*ast.IndexExpr)
		return ok && name(generic.X) == "errors.AsType"
	}
	return false
}

// forTests reports whether a file is a test, or a part of one that no other package imports.
func (s source) forTests() bool {
	return s.test || slices.Contains(strings.Split(s.folder, "/"), "itest")
}

func TestNoStatementHidesInAHeader(t *testing.T) {
	atRoot(t)
	for _, s := range everySource(t) {
		if s.forTests() {
			continue
		}
		for _, sentence := range hidden(s) {
			t.Error(sentence)
		}
	}
}

func TestHiddenStatementsAreFound(t *testing.T) {
	for _, c := range []struct{ header, hides string }{
		{"if err := f(); err != nil", ""},
		{"if _, err := f(); err == nil", ""},
		{"if closeErr := f(); closeErr != nil", ""},
		{"if err := f(); err != nil && !a", ""},
		{"if err := f(); (err == nil || a) && b", ""},
		{"if v, ok := m[k]; ok", ""},
		{"if _, there := m[k]; !there || a", ""},
		{"if v, ok := x.(T); ok", ""},
		{"if v, ok := <-c; !ok", ""},
		{"if v, ok := errors.AsType[*T](err); ok && v.a", ""},
		{"if a", ""},
		{"switch v := x.(type)", ""},
		{"switch f()", ""},

		{"if err = f(); err != nil", "err ="},
		{"if x.err, a = f(); a", "x.err, a ="},
		{"if a = f(); a", "a ="},
		{"if a &^= b; a != 0", "a &^="},
		{"if v := f(); v != nil", "v :="},
		{"if v := m[k]; v", "v :="},
		{"if err := f(); errors.Is(err, a)", "err :="},
		{"if err := f(); a && err != nil", "err :="},
		{"if err, a := f(); err != nil", "err, a :="},
		{"if v, ok := f(); ok", "v, ok :="},
		{"if v, ok := f[T](x); ok", "v, ok :="},
		{"if v, ok := m[k]; v && ok", "v, ok :="},
		{"if v, ok := m[k], a; ok", "v, ok :="},
		{"if v, ok := -m[k]; ok", "v, ok :="},
		{"if a++; a > 0", "IncDecStmt"},
		{"if f(); a", "ExprStmt"},
		{"if c <- a; a", "SendStmt"},
		{"if a {} else if b = f(); b", "b ="},
		{"switch a := f(); a", "a :="},
		{"switch err := f(); ", "err :="},
		{"switch a = f(); x.(type)", "a ="},
	} {
		t.Run(c.header, func(t *testing.T) {
			s, err := parse("x.go", []byte("package x\nfunc f() {\n\tg(func() {\n\t\t"+c.header+" {}\n\t})\n}\n"))
			require.NoError(t, err)

			found := hidden(s)

			if c.hides == "" {
				assert.Empty(t, found)
				return
			}
			keyword, _, _ := strings.Cut(c.header, " ")
			assert.Equal(t, []string{fmt.Sprintf("x.go:4: the header of the %s hides %q: give it a line of its own", keyword, c.hides)}, found)
		})
	}
}
