package house

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The measures of a reader: how much there is to read, how far one call goes through it, and
// what a program takes in with it. "make measures" prints them all, and "go test -v -run
// TestMeasures ./internal/house" those that need neither a build nor a server. They are no
// limits: a number that grows needs a reason, and not another way to count.

var measureAll = flag.Bool("measure-all", false, "measure also what needs a build, etcd and ZooKeeper")

// A part is what a folder, with all folders below it, counts as.
type part int

const (
	other  part = iota // counts for nothing
	core               // session, engine, rules, recipes and backends
	around             // the contract, and small packages that the core cannot be read without
)

// measured has the folders that count. Where one is within another, the nearer one counts.
// The entry of a folder that is no longer there counts nothing, so the measures can be
// compared over a move.
var measured = map[string]part{
	"session": core, "internal/engine": core, "internal/queue": core, "internal/term": core, "internal/rule": core,
	"recipes": core, "etcdbackend": core, "zkbackend": core, "membackend": core,

	"session/driver": around, "internal/door": around, "internal/report": around, "internal/yield": around,
	"internal/once": around, "internal/failpoint": around,

	"session/driver/drivertest": other, "recipes/recipetest": other, // suites
}

// partOf returns what a folder counts as.
func partOf(folder string) part {
	for ; folder != "."; folder = path.Dir(folder) {
		if p, ok := measured[folder]; ok {
			return p
		}
	}
	return other
}

// A tally is what some files have. A comment shares no line with code: words behind a
// statement are not counted, because they are rarely more than three.
type tally struct{ lines, blank, comments, hidden int }

func (c *tally) add(o tally) {
	c.lines += o.lines
	c.blank += o.blank
	c.comments += o.comments
	c.hidden += o.hidden
}

// share is how many of a hundred lines that are not empty are comments.
func (c *tally) share() float64 {
	return 100 * float64(c.comments) / float64(max(1, c.lines-c.blank))
}

// count counts the lines of a file. A raw string with a line that begins with two slashes
// would count for a comment; there is none.
func count(text []byte) tally {
	c := tally{}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		c.lines++
		switch {
		case len(line) == 0:
			c.blank++
		case bytes.HasPrefix(line, []byte("//")):
			c.comments++
		}
	}
	return c
}

// pathFolder has the program that takes a Lock with counters.
const pathFolder = "itest/path"

// size returns the bytes of a file.
func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	return info.Size()
}

// stripped builds the command without symbols.
func stripped(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fairlock")
	built(t, "-ldflags=-s -w", "-o", file, "./cmd/fairlock")
	return file
}

func built(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"build"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// A reach is how many functions ran, and in how many files. A closure counts as the function
// around it.
type reach struct{ functions, files int }

func (r reach) String() string { return fmt.Sprintf("%d / %d", r.functions, r.files) }

// reached reads the output of "go tool covdata func", and counts the functions in measured
// folders of which a statement ran.
func reached(output string) reach {
	r, files := reach{}, map[string]bool{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line) // file:line: function share%
		if len(fields) != 3 || fields[2] == "0.0%" {
			continue
		}
		file, _, _ := strings.Cut(fields[0], ":")
		file, ours := ourFolder(file)
		if ours && partOf(path.Dir(file)) != other {
			r.functions++
			files[file] = true
		}
	}
	r.files = len(files)
	return r
}

// paths takes locks on both services, and returns what ran in one Lock on an empty queue:
// the median of several.
func paths(t *testing.T) (etcd, zookeeper reach) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "path")
	covered := []string{modulePath + "/" + pathFolder} // or the counters would not be set up
	for folder, p := range measured {
		if p != other {
			covered = append(covered, modulePath+"/"+folder+"/...")
		}
	}
	built(t, "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(covered, ","), "-o", program, "./"+pathFolder)
	on := func(service string) reach {
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), program, "-on", service, "-out", out)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir()) // what the program writes at its end
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
		locks, err := os.ReadDir(out)
		require.NoError(t, err)
		var all []reach
		for _, l := range locks {
			text, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "func", "-i="+filepath.Join(out, l.Name())).Output()
			require.NoError(t, err)
			all = append(all, reached(string(text)))
		}
		require.NotEmpty(t, all)
		slices.SortFunc(all, func(a, b reach) int { return a.functions - b.functions })
		return all[len(all)/2]
	}
	return on("etcd"), on("zk")
}

// TestMeasures prints the measures. It fails only where it cannot measure.
func TestMeasures(t *testing.T) {
	atRoot(t)
	parts, packages, repository := map[part]*tally{core: {}, around: {}, other: {}}, map[string]*tally{}, tally{}
	for _, s := range everySource(t) {
		if s.forTests() {
			continue
		}
		text, err := os.ReadFile(s.path)
		require.NoError(t, err)
		c := count(text)
		c.hidden = len(hidden(s))
		p := partOf(s.folder)
		parts[p].add(c)
		repository.add(c)
		if p != other {
			if packages[s.folder] == nil {
				packages[s.folder] = &tally{}
			}
			packages[s.folder].add(c)
		}
	}
	require.NotZero(t, parts[core].lines)
	both := *parts[core]
	both.add(*parts[around])
	root := readMod(t, "mod", "go.mod")
	requires := root.direct()

	t.Logf("lines of session, engine, rules, terms, recipes and backends: %d, %d of them comments", parts[core].lines, parts[core].comments)
	t.Logf("the same with contract, door, reports, yield, once, failpoints: %d, %d of them comments", both.lines, both.comments)
	t.Logf("statements hidden in headers: %d there, %d in the repository", both.hidden, repository.hidden)
	t.Logf("modules that the root's go.mod requires directly: %d: %s", len(requires), strings.Join(requires, " "))
	t.Logf("comments, of a hundred lines that are not empty:")
	for _, group := range [][]string{{"internal/engine", "internal/queue", "internal/term"}, {"etcdbackend"}, {"zkbackend"}, {"membackend"}} {
		sum := tally{}
		for folder, c := range packages {
			if withinAny(folder, group) {
				sum.add(*c)
			}
		}
		t.Logf("    %4.1f  %s, with the folders below", sum.share(), strings.Join(group, ", "))
	}
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		t.Logf("    %4.1f  %s, %d lines", packages[folder].share(), folder, packages[folder].lines)
	}
	if !*measureAll {
		t.Log("not measured without -measure-all: the size of the command, the path of a Lock")
		return
	}
	t.Logf("bytes of the command: %d as go install builds it, %d without symbols", size(t, installed(t)), size(t, stripped(t)))
	etcd, zookeeper := paths(t)
	t.Logf("functions / files that run in a Lock on an empty queue: %s on etcd, %s on ZooKeeper", etcd, zookeeper)
}

func TestMeasuresCount(t *testing.T) {
	assert.Equal(t, core, partOf("session"))
	assert.Equal(t, core, partOf("etcdbackend/internal/watch"))
	assert.Equal(t, around, partOf("session/driver"))
	assert.Equal(t, other, partOf("session/driver/drivertest"))
	assert.Equal(t, other, partOf("sessions"))

	c := count([]byte("// A.\n\nvar a = 1 // one\n\t// B.\n"))
	assert.Equal(t, tally{lines: 4, blank: 1, comments: 2}, c)
	assert.InDelta(t, 66.7, c.share(), 0.1)

	const ours = modulePath + "/"
	assert.Equal(t, reach{3, 2}, reached(ours+"session/a.go:3:\tF\t100.0%\n"+ours+"session/a.go:9:\tT.g\t0.1%\n"+ours+"session/a.go:20:\tT.h\t0.0%\n"+
		ours+"zkbackend/b.go:1:\tF\t5.0%\n"+ours+"bench/b.go:1:\tF\t5.0%\ngo.etcd.io/x/session/a.go:1:\tF\t5.0%\ntotal\t(statements)\t1.0%\n"))
}
