package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rule for time in tests: package hang has the only bound on the wait for an event, and
// package metronome measures where a short time is the claim. A bound of a test's own is right
// on one machine and red on a slower one.

// virtual are the folders in which all tests run in virtual time, where nothing is late. So do
// the tests in files that import testing/synctest.
var virtual = []string{"internal/queue", "internal/term", "itest/sim", "membackend", "session", "ui", "zkbackend/internal/conn", "internal/hang", "internal/metronome"}

// agreedBounds are the functions that may have a bound, each for a reason.
var agreedBounds = map[string]string{
	"etcdtest.MoveLeader":                                         "another attempt follows",
	"recipes/recipetest.releaseBeforeWatch":                       "in virtual time only",
	"session/driver/drivertest.TestSuiteCatchesEveryPlantedFault": "a planted fault may hang",
	"itest/command/beat.live":                                     "it is the command of a trial, and ends by itself if the trial does not end it",
	"itest/etcd.openOn":                                           "what a cut session does at the end of a test is not judged",
	"zkbackend/internal/conntest.open":                            "the same",
	"zkbackend/internal/conntest.watchInOrder":                    "it cancels a watch now and then",
}

// bounds names each bound on real time in a file of a test.
func bounds(s source, constants map[string]bool) []string {
	var bad []string
	for _, d := range s.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || strings.HasPrefix(f.Name.Name, "Example") || agreedBounds[s.folder+"."+f.Name.Name] != "" {
			continue
		}
		b := boundsOf{measured: measuredIn(f.Body), constants: constants}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if text := b.check(n); text != "" {
				bad = append(bad, s.at(n.Pos())+": "+text)
			}
			return true
		})
	}
	return bad
}

// boundsOf finds the bounds in a function.
type boundsOf struct {
	measured  map[string]bool // variables with a time that was measured
	constants map[string]bool // constants that are durations
}

// check returns what is wrong with a node, or "".
func (b boundsOf) check(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CommClause:
		if call := received(n.Comm); call != nil && !again(n.Body) && name(call.Fun) == "time.After" && b.constant(call.Args[0]) {
			return "a bound on a wait: use hang.Receive"
		}
	case *ast.IfStmt:
		c, ok := n.Cond.(*ast.BinaryExpr)
		more := ok && (c.Op == token.GTR || c.Op == token.GEQ) && b.measures(c.X)
		less := ok && (c.Op == token.LSS || c.Op == token.LEQ) && b.measures(c.Y)
		if more || less {
			return "a bound on a measured time: use metronome"
		}
	case *ast.CallExpr:
		return b.call(n)
	}
	return ""
}

func (b boundsOf) call(n *ast.CallExpr) string {
	of, f, _ := strings.Cut(name(n.Fun), ".")
	f = strings.TrimSuffix(f, "f")
	arg := func(i int) bool { return i < len(n.Args) && b.measures(n.Args[i]) }
	switch {
	case of == "context" && (strings.HasPrefix(f, "WithTimeout") || strings.HasPrefix(f, "WithDeadline")) && b.constant(n.Args[1]):
		return "a bound on a wait: use hang.Context, or hang.Ending for a context that ends during a call"
	case of != "assert" && of != "require":
		return ""
	case strings.HasPrefix(f, "Eventually"):
		return "a bound on a wait: use hang.Until"
	case (f == "Less" || f == "LessOrEqual") && arg(1),
		(f == "Greater" || f == "GreaterOrEqual") && arg(2),
		(f == "InDelta" || f == "InEpsilon" || f == "WithinDuration") && (arg(1) || arg(2)):
		return "a bound on a measured time: use metronome"
	}
	return ""
}

// constant reports whether a duration is fixed in the code: no function returns it.
func (b boundsOf) constant(e ast.Expr) bool {
	found, computed := false, false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || strings.HasPrefix(name(n), "time.") && name(n) != "time.Now"
		case *ast.Ident:
			found = found || b.constants[n.Name]
		case *ast.CallExpr:
			f := name(n.Fun)
			computed = computed || f != "time.Now" && f != "time.Duration" && f != ".Add"
		}
		return true
	})
	return found && !computed
}

// measures reports whether an expression has a time that was measured, and not only that in
// which the machine let the test run.
func (b boundsOf) measures(e ast.Expr) bool {
	found, ran := false, false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f := name(n.Fun)
			found = found || f == "time.Since" || strings.HasSuffix(f, ".Sub")
			ran = ran || strings.HasSuffix(strings.ToLower(f), ".stalled")
		case *ast.Ident:
			found = found || b.measured[n.Name]
		}
		return true
	})
	return found && !ran
}

// again reports whether a case of a select only goes on with the loop around it: its time is
// the one between two attempts.
func again(body []ast.Stmt) bool {
	if len(body) == 0 {
		return true
	}
	b, ok := body[0].(*ast.BranchStmt)
	return ok && b.Tok == token.CONTINUE
}

// measuredIn returns the variables to which a function assigns a time that it measured.
func measuredIn(body *ast.BlockStmt) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
			return true
		}
		call, ok := a.Rhs[0].(*ast.CallExpr)
		id, named := a.Lhs[0].(*ast.Ident)
		if ok && named && name(call.Fun) == "time.Since" {
			all[id.Name] = true
		}
		return true
	})
	return all
}

// received returns the call whose channel a case of a select receives from.
func received(comm ast.Stmt) *ast.CallExpr {
	e, ok := comm.(*ast.ExprStmt)
	if !ok {
		return nil
	}
	u, ok := e.X.(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	call, _ := u.X.(*ast.CallExpr)
	return call
}

// name returns "x.F" for the function or constant F of package or variable x.
func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	}
	return ""
}

// durations returns the constants of a file that are durations.
func durations(f *ast.File) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		d, ok := n.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			return true
		}
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			for i := range v.Names {
				if ok && i < len(v.Values) && (boundsOf{}).constant(v.Values[i]) {
					all[v.Names[i].Name] = true
				}
			}
		}
		return true
	})
	return all
}

// timed reports whether the rule for time holds in a file.
func timed(s source) bool {
	r, ok := ruleFor(importRules, s.folder)
	return (s.test || ok && r.forTests) && !slices.Contains(virtual, s.folder) && !slices.Contains(s.imports(), "testing/synctest")
}

func TestNoTestHasABoundOfItsOwn(t *testing.T) {
	atRoot(t)
	constants, checked := map[string]map[string]bool{}, 0
	all := sources(t)
	for _, s := range all {
		if constants[s.folder] == nil {
			constants[s.folder] = map[string]bool{}
		}
		maps.Copy(constants[s.folder], durations(s.syntax))
	}
	for _, s := range all {
		if !timed(s) {
			continue
		}
		checked++
		for _, sentence := range bounds(s, constants[s.folder]) {
			t.Error(sentence)
		}
	}
	assert.Greater(t, checked, 100)
}

func TestBoundsAreFound(t *testing.T) {
	for body, want := range map[string]string{
		`require.Eventually(t, ok, d, d)`:                                          "hang.Until",
		`assert.EventuallyWithT(t, ok, d, d)`:                                      "hang.Until",
		`ctx, cancel := context.WithTimeout(ctx, 5*time.Second)`:                   "hang.Context",
		`ctx, cancel := context.WithTimeoutCause(ctx, soon, err)`:                  "hang.Context",
		`ctx, cancel := context.WithDeadline(ctx, time.Now().Add(20*time.Second))`: "hang.Context",
		`ctx, cancel := context.WithTimeout(ctx, given)`:                           "",
		`select { case <-done: case <-time.After(soon): t.Fatal() }`:               "hang.Receive",
		`select { case <-done: case <-time.After(given): t.Fatal() }`:              "",
		`for { select { case <-done: return; case <-time.After(every): } }`:        "",
		`<-time.After(time.Second)`:                                                "",
		`assert.Less(t, time.Since(began), time.Second)`:                           "metronome",
		`took := time.Since(began); require.LessOrEqual(t, took, limit)`:           "metronome",
		`assert.Greater(t, limit, end.Sub(began))`:                                 "metronome",
		`assert.Greater(t, time.Since(began), limit)`:                              "",
		`assert.WithinDuration(t, began, time.Now().Sub(x), limit)`:                "metronome",
		`assert.Less(t, time.Since(began)-watch.Stalled(), limit)`:                 "",
		`ctx, cancel := context.WithTimeout(ctx, random(soon))`:                    "",
		`took := metronome.Time(f); assert.Less(t, took, limit)`:                   "",
		`if time.Since(began) > limit { t.Fatal() }`:                               "metronome",
		`if time.Since(began) < limit { t.Fatal() }`:                               "",
	} {
		s, err := parse("x/x_test.go", fmt.Appendf(nil, "package x\nconst soon = time.Second\nfunc f() {\n%s\n}\n", body))
		require.NoError(t, err, body)

		got := strings.Join(bounds(s, durations(s.syntax)), "\n")

		if want == "" {
			assert.Empty(t, got, body)
		} else {
			assert.Contains(t, got, want, body)
			assert.Contains(t, got, "x/x_test.go:4: ", body)
		}
	}
}
