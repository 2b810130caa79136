package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// buildHead builds the workers for the newest commit, even if the checkout has uncommitted changes.
func buildHead(t *testing.T) *old {
	t.Helper()
	folder, err := benchFolder(t.Context())
	require.NoError(t, err)
	o := &old{Ref: "HEAD"}
	o.Commit, err = git(t.Context(), folder, "rev-parse", "HEAD")
	require.NoError(t, err, "this test needs a checkout")
	o.New = o.Commit
	require.NoError(t, o.build(t.Context(), folder))
	t.Cleanup(func() {
		dir := filepath.Dir(o.newWorker)
		assert.NoError(t, o.remove())
		assert.NoDirExists(t, dir)
	})
	return o
}

// repository creates a git repository with these files in its only commit. Git does not use the
// user's settings.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first"},
		{"tag", "v1"},
	} {
		_, err := git(t.Context(), dir, args...)
		require.NoError(t, err)
	}
	return dir
}

func TestResolveTakesEveryNameOfACommit(t *testing.T) {
	dir := repository(t, map[string]string{"a": "a"})
	head, err := git(t.Context(), dir, "rev-parse", "HEAD")
	require.NoError(t, err)

	for _, ref := range []string{"HEAD", "v1", head, head[:7]} {
		o, err := resolve(t.Context(), dir, ref)
		require.NoError(t, err)
		assert.Equal(t, old{Ref: ref, Commit: head, New: head}, *o)
	}
}

func TestResolveReportsACommitThatCannotBeCompared(t *testing.T) {
	dir := repository(t, map[string]string{"a": "a"})

	_, err := resolve(t.Context(), dir, "v2")
	require.EqualError(t, err, `"v2" is no commit or tag in this clone`)
	_, err = resolve(t.Context(), dir, "--all")
	require.EqualError(t, err, `"--all" is no commit or tag in this clone`)

	clone := filepath.Join(t.TempDir(), "clone")
	_, err = git(t.Context(), dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "second")
	require.NoError(t, err)
	_, err = git(t.Context(), dir, "clone", "--quiet", "--depth=1", "--no-tags", "file://"+dir, clone)
	require.NoError(t, err)
	_, err = resolve(t.Context(), clone, "v1")
	require.ErrorContains(t, err, `"v1" is no commit in this clone, which is shallow`)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("b"), 0o644))
	_, err = resolve(t.Context(), dir, "v1")
	require.ErrorContains(t, err, "the checkout has changes that no commit has")
	require.ErrorContains(t, err, "M a")

	_, err = resolve(t.Context(), t.TempDir(), "v1")
	require.ErrorContains(t, err, "is in no checkout with a commit")

	t.Setenv("PATH", t.TempDir())
	_, err = resolve(t.Context(), dir, "v1")
	require.ErrorContains(t, err, "git is needed")
}

func TestBenchMustRunInItsOwnFolder(t *testing.T) {
	t.Chdir(t.TempDir())

	_, err := buildOld(t.Context(), "HEAD")

	require.ErrorContains(t, err, "-old HEAD: bench does not run in its own folder of a checkout")
}

// The earlier commit is checked out into another folder; the present checkout must not change.
func TestBuildReportsTheErrorsOfTheCompiler(t *testing.T) {
	const goMod = "module github.com/fairlock/fairlock\n\ngo 1.26.0\n"
	dir := repository(t, map[string]string{
		"go.mod":            goMod,
		"go.sum":            "",
		"lock.go":           "package fairlock\n\nfunc Lock() int { return \"no\" }\n",
		"bench/go.mod":      "module github.com/fairlock/fairlock/bench\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/fairlock/fairlock v0.1.0\n\tgithub.com/fairlock/fairlock/later v0.1.0\n)\n",
		"bench/go.sum":      "",
		"bench/worker/w.go": "package main\n\nimport \"github.com/fairlock/fairlock\"\n\nfunc main() { fairlock.Lock() }\n",
	})
	o, err := resolve(t.Context(), filepath.Join(dir, "bench"), "v1")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lock.go"), []byte("package fairlock\n\nfunc Lock() {}\n"), 0o644))
	before := status(t, dir)

	err = o.build(t.Context(), filepath.Join(dir, "bench"))

	require.ErrorContains(t, err, "commit "+o.Commit+" does not build")
	require.ErrorContains(t, err, "lock.go:3:")
	assert.NoDirExists(t, filepath.Dir(o.newWorker))
	assert.Equal(t, before, status(t, dir))
}

func status(t *testing.T, dir string) string {
	t.Helper()
	text, err := git(t.Context(), dir, "status", "--porcelain")
	require.NoError(t, err)
	return text
}
