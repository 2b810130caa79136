package engine_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memory"
)

// rewrite writes the present output into the traces; read the difference.
var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata")

// kind is a kind of service.
type kind struct {
	name    string
	options memory.Options
}

// kinds are those on which every trace goes the same way.
func kinds() []kind {
	return []kind{
		{"Plain", memory.Options{}},
		{"First", memory.Options{First: true, Near: true, Sequences: true}},
		{"Terse", memory.Options{Terse: true, Later: true}},
	}
}

// TestTraces runs long interleavings that are written down as text: a command on each
// line, and below it, indented, what it leads to. The commands:
//
//	lock a1       request 1 of session a joins (sessions are opened when named)
//	try a1        the same, without waiting
//	lockall a1    as lock, and a1 waits for all that are ahead at once
//	rlock a1, wlock a1, tryr a1, tryw a1
//	              the same by the rule of readers and writers
//	acquire a1, acquire a1 3
//	              the same for one permit, or for 3, of a semaphore that has as many
//	robust a1, robust a1 1m
//	              as lock, with a ledger, and with a delay of a minute after a death
//	limit a 2     session a sets the limit to two
//	downgrade a1  makes a reader of a writer; it gives up after 100 ms
//	cancel a1     its context ends
//	unlock a1     releases
//	delete a1     an operator deletes the entry of a1
//	expire a      the service ends session a
//	cut a, heal a the network of session a
//	foreign x     another program puts entry x into the queue
//	remove x      and deletes it
//	fault a LostReply join
//	              the next request of that kind goes wrong
//	blind a       session a sends no requests to watch its own entries from now on
//	see a         it sends them
//	slow a 3ms 5ms what requests and replies of session a take from now on
//	count read a b
//	              how many requests of that kind sessions a and b have sent since the
//	              last count; of the kind event, how many their watches have reported,
//	              without what each begins with
//	forget read a b
//	              begins to count anew
//	wait 10s      time passes
//	close a       session a is closed
//
// After each command the queue is shown, by the requests that have entries, with a star
// on those whose hold is valid, and a tilde on readers.
//
// The traces in testdata/traces are the same on every kind of service, those in the folder
// of a kind only on that.
func TestTraces(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			runAll(t, k.options, "testdata/traces")
			if dir := "testdata/" + strings.ToLower(k.name); k.name != "Terse" {
				runAll(t, k.options, dir)
			}
		})
	}
}

// runAll runs the traces in a folder.
func runAll(t *testing.T, o memory.Options, dir string) {
	files, err := filepath.Glob(dir + "/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(f)
			require.NoError(t, err)
			var got string
			synctest.Test(t, func(t *testing.T) { got = run(t, o, string(raw)) })
			if *rewrite {
				require.NoError(t, os.WriteFile(f, []byte(got), 0o644))
				return
			}
			assert.Equal(t, string(raw), got)
		})
	}
}

// run runs the commands of a trace and returns it with the output that they really have.
func run(t *testing.T, o memory.Options, trace string) string {
	f := newFixture(t, o)
	var out strings.Builder
	sc := bufio.NewScanner(strings.NewReader(trace))
	for sc.Scan() {
		line := sc.Text()
		switch {
		case strings.HasPrefix(line, "  "):
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		default:
			fmt.Fprintln(&out, line)
			for _, l := range f.do(strings.Fields(line)) {
				fmt.Fprintln(&out, "  "+l)
			}
		}
	}
	return out.String() + f.end()
}
