package concurrency_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	theirs  = "go.etcd.io/etcd/client/v3/concurrency"
	ours    = "github.com/fairlock/fairlock/compat/concurrency"
	itsTest = "go.etcd.io/etcd/tests/v3"
)

// upstream are the tests of etcd's package, by their folders in the module of etcd's tests. They
// are those of the version of etcd's client that this module requires, and are not part of this
// project: the test gets the module and changes the import in a copy.
var upstream = []struct {
	folder string
	files  string
	// without are the functions that are left out, each for a reason.
	without map[string]string
	tests   int // how many pass at least
}{
	{folder: "integration/clientv3/concurrency", files: "*_test.go", tests: 10},
	{
		folder: "integration/clientv3/experimental/recipes", files: "v3_lock_test.go", tests: 5,
		without: map[string]string{
			"TestMutexSessionRelock": "two Mutexes of one session exclude each other, see doc.go",
			"TestRWMutexSingleNode":  "of another package, which takes etcd's Session",
			"TestRWMutexMultiNode":   "the same",
			"testRWMutex":            "the same",
		},
	},
	{
		folder: "integration", files: "v3_election_test.go", tests: 7,
		without: map[string]string{"TestElectionWithAuthEnabled": "it campaigns with sessions that it has orphaned, see doc.go"},
	},
}

func TestTheTestsOfEtcdPass(t *testing.T) {
	dir := t.TempDir()
	etcd := fetched(t, dir)
	here, err := filepath.Abs("../..")
	require.NoError(t, err)
	run(t, dir, "mod", "edit", "-go=1.26.0", "-require="+itsTest+"@"+etcd.Version, "-require="+ours+"@v0.1.0",
		"-replace="+ours+"="+filepath.Join(here, "compat/concurrency"), "-replace="+path.Dir(path.Dir(ours))+"="+here,
		"-replace="+path.Dir(path.Dir(ours))+"/etcdbackend="+filepath.Join(here, "etcdbackend"))
	for _, u := range upstream {
		t.Run(path.Base(u.folder), func(t *testing.T) {
			to := filepath.Join(dir, path.Base(u.folder))
			require.NoError(t, os.Mkdir(to, 0o700))
			files, err := filepath.Glob(filepath.Join(etcd.Dir, u.folder, u.files))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			changed := 0
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Contains(t, string(text), "Apache License", file)
				text, imports := rewritten(t, text, u.without)
				changed += imports
				require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o600))
			}
			require.Positive(t, changed)
			out := run(t, dir, "test", "-vet=off", "-count=1", "-v", "-timeout=90s", "./"+path.Base(u.folder))
			assert.GreaterOrEqual(t, strings.Count(out, "\n--- PASS"), u.tests, out)
			assert.NotContains(t, out, "--- SKIP")
		})
	}
}

// module is what go mod download prints.
type module struct{ Version, Dir string }

// fetched gets the module of etcd's tests, of the version of etcd's client, and makes a module
// in dir.
func fetched(t *testing.T, dir string) (m module) {
	t.Helper()
	version := strings.TrimSpace(run(t, ".", "list", "-m", "-f", "{{.Version}}", path.Dir(theirs)))
	run(t, dir, "mod", "init", "upstream")
	require.NoError(t, json.Unmarshal([]byte(run(t, dir, "mod", "download", "-json", itsTest+"@"+version)), &m))
	return m
}

// run runs a command of go outside of the workspace, and returns what it printed. The go.mod of the
// copy gets what is missing.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if dir != "." {
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	}
	out, err := cmd.Output()
	require.NoError(t, err, "go %s\n%s%s", strings.Join(args, " "), out, errs.Bytes())
	return string(out)
}

// rewritten returns a file with our import in the place of etcd's, and how many it has changed.
// Functions of without are blanked, and imports that nothing uses then.
func rewritten(t *testing.T, text []byte, without map[string]string) (out []byte, changed int) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	out = slices.Clone(text)
	blank := func(n ast.Node) {
		for i := fset.Position(n.Pos()).Offset; i < fset.Position(n.End()).Offset; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	used := map[string]bool{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && without[fn.Name.Name] != "" {
			blank(fn)
			continue
		}
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue // its names are no uses
		}
		ast.Inspect(d, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if ok {
				used[id.Name] = true
			}
			return true
		})
	}
	for _, imp := range f.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		require.NoError(t, err)
		name = path.Base(name)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		if len(without) > 0 && !used[name] {
			blank(imp)
		}
	}
	changed = bytes.Count(out, []byte(strconv.Quote(theirs)))
	return bytes.ReplaceAll(out, []byte(strconv.Quote(theirs)), []byte(strconv.Quote(ours))), changed
}
