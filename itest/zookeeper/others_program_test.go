package zookeeper

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zktest"
)

// program is a process with clients of another library: see the sources in testdata, which
// read commands, one on each line.
type program struct {
	process *process.Process
	needs   string // what must be here for it to run

	mu     sync.Mutex
	actors map[string]*actor
}

// actor is one client in a program, with a lock of its own.
type actor struct {
	p       *program
	name    string
	answers chan []string
}

// theirTTL is the session timeout of the clients of other libraries. On a busy machine their
// heartbeats, one every third of it, may be seconds late.
const theirTTL = "12000" // ms

// startProgram starts a program. It is killed at the latest when the test ends.
func startProgram(t testing.TB, needs, name string, args ...string) *program {
	t.Helper()
	p := &program{needs: needs, actors: map[string]*actor{}}
	p.process = process.StartPiped(exec.CommandContext(t.Context(), name, args...))
	t.Cleanup(p.process.Halt)
	go func() { // ends with the process
		for lines := bufio.NewScanner(p.process); lines.Scan(); {
			p.receive(strings.Fields(lines.Text()))
		}
	}()
	return p
}

// receive passes an answer to its actor.
func (p *program) receive(fields []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(fields) > 1 && p.actors[fields[0]] != nil {
		p.actors[fields[0]].answers <- fields[1:]
	}
}

// open makes an actor with a lock of a kind on a path, perhaps on other servers
// than the program's.
func (p *program) open(t testing.TB, kind, path string, servers ...string) *actor {
	t.Helper()
	p.mu.Lock()
	a := &actor{p: p, name: fmt.Sprint("actor", len(p.actors)), answers: make(chan []string, 10)}
	p.actors[a.name] = a
	p.mu.Unlock()
	a.does(t, "open", append([]string{kind, path}, servers...)...)
	return a
}

// command sends a command to an actor.
func (a *actor) command(t testing.TB, what string, args ...string) {
	t.Helper()
	_, err := fmt.Fprintln(a.p.process, strings.Join(append([]string{what, a.name}, args...), " "))
	require.NoError(t, err)
}

// answer waits for an actor's next answer, and checks what it begins with.
func (a *actor) answer(t testing.TB, want string) []string {
	t.Helper()
	var fields []string
	select {
	case fields = <-a.answers:
	case <-a.p.process.Done():
	case <-time.After(3 * recipetest.Patience): // Java compiles the program first
		require.Fail(t, "timeout", "%s; the output of the program: %s", want, a.p.process.Stderr())
	}
	if fields == nil {
		t.Fatalf("The program has ended; it needs %s: %v", a.p.needs, a.p.process.Err())
	}
	require.Equal(t, want, fields[0], "%v; the output of the program: %s", fields, a.p.process.Stderr())
	return fields[1:]
}

// does sends a command and waits for its answer, which comes at once.
func (a *actor) does(t testing.TB, what string, args ...string) {
	t.Helper()
	a.command(t, what, args...)
	a.answer(t, map[string]string{"open": "open", "release": "released", "revoke": "revoked"}[what])
}

// acquired waits for the answer to "acquire", and returns what an actor knows of
// its entry.
func (a *actor) acquired(t testing.TB) (path string, czxid int64) {
	t.Helper()
	fields := a.answer(t, "acquired")
	require.Len(t, fields, 3)
	czxid, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(t, err)
	return fields[0], czxid
}

// startCurator starts stock Curator.
func startCurator(t testing.TB, e *zktest.Ensemble) *program {
	t.Helper()
	java, _, err := zktest.Find()
	require.NoError(t, err)
	classpath := os.Getenv("CURATOR_CLASSPATH")
	if classpath == "" {
		const jars = "/usr/share/java"
		var all []string
		for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "slf4j-nop"} {
			file := filepath.Join(jars, jar+".jar") // their manifests name the rest
			if _, err := os.Stat(file); err != nil {
				t.Fatalf("Curator is not here (%v): install the Debian package libcurator-recipes-java, or set CURATOR_CLASSPATH to Curator's jars and theirs.", err)
			}
			all = append(all, file)
		}
		classpath = strings.Join(all, string(os.PathListSeparator))
	}
	return startProgram(t, "a JDK and Curator: the Debian packages default-jdk-headless and libcurator-recipes-java, or JAVA_HOME and CURATOR_CLASSPATH",
		java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", classpath, filepath.Join("testdata", "CuratorLock.java"), e.Member(0).Direct(), theirTTL)
}

// startKazoo starts stock Kazoo.
func startKazoo(t testing.TB, e *zktest.Ensemble) *program {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import kazoo").CombinedOutput(); err != nil {
		t.Fatalf("Kazoo is not here (%v: %s): install the Debian package python3-kazoo.", err, out)
	}
	return startProgram(t, "the Debian package python3-kazoo", python, "-u", filepath.Join("testdata", "kazoo_lock.py"), e.Member(0).Direct(), theirTTL)
}
