package house

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outside has the modules that are not in the workspace, each for a reason.
var outside = []string{
	"tools",                           // the versions of linters are not those of the library
	"internal/house/testdata/service", // a program of a user
}

// ofTests are the modules that only tests use. A program that requires this module gets them
// into its own list, and links none.
var ofTests = []string{"github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid"}

// What a program without this project would use on etcd and on PostgreSQL.
const (
	etcdClient     = "go.etcd.io/etcd/client/v3"
	postgresClient = "github.com/jackc/pgx/v5"
)

// A goMod is a go.mod as go mod edit -json prints it, or a go.work as go work edit -json does.
type goMod struct {
	Module  struct{ Path string }
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Use     []struct{ DiskPath string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
	Exclude  []struct{ Path string }
	versions map[string]string // of Require
}

// readMod reads a go.mod, or with "work" a go.work.
func readMod(t *testing.T, kind, file string) goMod {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", kind, "edit", "-json", file).Output()
	require.NoError(t, err)
	m := goMod{versions: map[string]string{}}
	require.NoError(t, json.Unmarshal(out, &m))
	for _, r := range m.Require {
		m.versions[r.Path] = r.Version
	}
	return m
}

// direct returns the modules that a go.mod requires itself.
func (m *goMod) direct() []string {
	var all []string
	for _, r := range m.Require {
		if !r.Indirect {
			all = append(all, r.Path)
		}
	}
	return all
}

// modules returns the go.mod files of the repository by their folders.
func modules(t *testing.T) map[string]goMod {
	t.Helper()
	files, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "go.mod", "*/go.mod").Output()
	require.NoError(t, err)
	all := map[string]goMod{}
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		all[filepath.ToSlash(filepath.Dir(file))] = readMod(t, "mod", file)
	}
	return all
}

// A command is installed by "go install …@version" only if its go.mod replaces nothing. The
// modules are tagged together, so each requires the others at one version.
func TestEachModuleCanBeReleased(t *testing.T) {
	atRoot(t)
	work := readMod(t, "work", "go.work")
	var used []string
	for _, u := range work.Use {
		used = append(used, filepath.ToSlash(filepath.Clean(u.DiskPath)))
	}
	tagged := map[string]string{} // what go.work takes from here: path and version
	for _, r := range work.Replace {
		tagged[r.Old.Path] = r.Old.Version
	}
	required := map[string]string{}
	all := modules(t)
	for folder, m := range all {
		if slices.Contains(outside, folder) {
			continue
		}
		assert.Contains(t, used, folder, "go.work does not use it")
		assert.Equal(t, importPath(folder), m.Module.Path)
		assert.Empty(t, m.Replace, folder)
		assert.Empty(t, m.Exclude, folder)
		for path, version := range m.versions {
			if within(path, modulePath) {
				required[path] = version
				assert.Equal(t, tagged[path], version, "%s requires %s", folder, path)
			}
		}
	}
	assert.Equal(t, required, tagged, "go.work replaces what the modules require of each other")
	assert.Len(t, used, len(all)-len(outside))
}

// A program that requires the root gets what that requires, whatever it imports.
func TestTheRootRequiresLittle(t *testing.T) {
	atRoot(t)
	root := readMod(t, "mod", "go.mod")

	for _, path := range root.direct() {
		assert.Contains(t, append([]string{"github.com/go-zookeeper/zk", "golang.org/x/sys"}, ofTests...), path)
	}
}

// service returns the go.mod of a service, and that after it has got a package of this project,
// or another.
func service(t *testing.T, importing string) (before, after goMod) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("internal/house/testdata/service")))
	store := fmt.Sprintf("package main\n\nimport used %q\n\nfunc holds() any { return %s }\n", importing, storeValue(importing))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.go"), []byte(store), 0o600))
	file := filepath.Join(dir, "go.mod")
	before = readMod(t, "mod", file)
	edit := []string{"mod", "edit"}
	for folder, m := range modules(t) {
		if !slices.Contains(outside, folder) {
			edit = append(edit, "-replace="+m.Module.Path+"="+filepath.Join(here, folder))
		}
	}
	module, from := importing, "etcdbackend/go.mod"
	switch {
	case strings.HasPrefix(importing, modulePath):
		module = modulePath
	case importing == postgresClient:
		from = "pgbackend/go.mod"
	}
	version := readMod(t, "mod", from).versions[module]
	goIn(t, dir, append(edit, "-require="+module+"@"+version, file)...)
	goIn(t, dir, "mod", "tidy")
	return before, readMod(t, "mod", file)
}

// storeValue is an expression that links a package.
func storeValue(importing string) string {
	switch {
	case importing == etcdClient:
		return "used.New"
	case importing == postgresClient:
		return "used.Connect"
	case strings.HasSuffix(importing, "membackend"):
		return "used.New"
	}
	return "used.Open"
}

// goIn runs go outside of the workspace.
func goIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// raised returns the modules of a go.mod that another has at another version.
func raised(before, after goMod) map[string]string {
	all := map[string]string{}
	for path, version := range before.versions {
		if after.versions[path] != version {
			all[path] = after.versions[path]
		}
	}
	return all
}

// A lock must not raise the versions of what else a program uses. What a store's own client
// raises is not ours to choose.
func TestAStoreRaisesNothingOfAService(t *testing.T) {
	atRoot(t)
	client, pgx := raised(service(t, etcdClient)), raised(service(t, postgresClient))

	for store, want := range map[string]map[string]string{
		"membackend": {}, "zkbackend": {}, "etcdbackend": client, "pgbackend": pgx,
	} {
		before, after := service(t, modulePath+"/"+store)
		got := raised(before, after)
		added := 0
		for path := range after.versions {
			if _, had := before.versions[path]; !had {
				added++
			}
		}
		t.Logf("%s raises %d modules of a service and adds %d", store, len(got), added)

		assert.Equal(t, want, got, store)
	}
	assert.NotEmpty(t, client, "or nothing would be compared")
	t.Logf("etcd's client alone raises %d: %s", len(client), strings.Join(slices.Sorted(maps.Keys(client)), " "))
	t.Logf("pgx alone raises %d: %s", len(pgx), strings.Join(slices.Sorted(maps.Keys(pgx)), " "))
}
