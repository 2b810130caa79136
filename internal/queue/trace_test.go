package queue_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

// rewrite makes the traces what they now are; read the difference.
var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata/traces")

// TestTraces plays long interleavings that are written down as text: a command
// on each line, and below it, indented, what it leads to. The commands:
//
//	lock a1       request 1 of session a joins (sessions are opened when named)
//	try a1        the same, without waiting
//	lockall a1    as lock, and a1 watches all who are ahead
//	rlock a1, wlock a1, tryr a1, tryw a1
//	              the same in the rule of readers and writers
//	acquire a1, acquire a1 3
//	              the same for one permit, or for 3, of a semaphore that has so many
//	robust a1, robust a1 1m
//	              as lock, with a ledger, and with a delay of a minute after a death
//	limit a 2     session a makes it two
//	downgrade a1  makes a reader of a writer; it gives up after 100 ms
//	cancel a1     its context ends
//	unlock a1     gives back
//	delete a1     an operator deletes the entry of a1
//	expire a      the service ends session a
//	cut a, heal a the network of session a
//	foreign x     another program puts entry x in the line (leased)
//	remove x      and takes it out
//	fault a LostReply join
//	              the next request of that kind goes wrong
//	slow a 3ms 5ms what requests and replies of session a take from now on
//	count look a b
//	              how many requests of that kind sessions a and b have sent since
//	              the last count; of the kind event, how many their watches have told
//	forget look a b
//	              begins to count anew
//	wait 10s      time passes
//	close a       session a is closed
//
// After each command the line is shown, by the requests that stand in it, with
// a star on those whose hold is believed in, and a tilde on readers.
//
// Those in testdata/traces go the same way on every kind of service, those in
// testdata/tells on every kind that tells who held, those in testdata/dated where
// events have revisions, and those in testdata/undated where they have none: there
// an answer may wait for the events before it, and elsewhere it overtakes them.
// Those in testdata/lagging are played where looks are as old as they may be.
func TestTraces(t *testing.T) {
	for _, k := range memtest.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			playAll(t, k.Options, "testdata/traces")
			if k.Options.Tells {
				playAll(t, k.Options, "testdata/tells")
			}
			if k.Options.NoRevs {
				playAll(t, k.Options, "testdata/undated")
			} else {
				playAll(t, k.Options, "testdata/dated")
			}
		})
	}
	k := memtest.Lagging()
	t.Run(k.Name, func(t *testing.T) { playAll(t, k.Options, "testdata/lagging") })
}

// playAll plays the traces in a folder.
func playAll(t *testing.T, o memory.Options, dir string) {
	files, err := filepath.Glob(dir + "/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(f)
			require.NoError(t, err)
			var got string
			synctest.Test(t, func(t *testing.T) { got = play(t, o, string(raw)) })
			if *rewrite {
				require.NoError(t, os.WriteFile(f, []byte(got), 0o644))
				return
			}
			assert.Equal(t, string(raw), got)
		})
	}
}

// play runs the commands of a trace and returns it with the output that they
// really have.
func play(t *testing.T, o memory.Options, trace string) string {
	w := &world{
		t: t, st: memtest.NewWith(o), clients: map[string]*membackend.Client{}, watches: map[string]*memtest.Watches{}, counts: map[string]int{},
		sessions: map[string]*session.Session{}, reqs: map[string]*req{}, cut: map[string]bool{}, slow: map[string][2]time.Duration{}, struck: map[int64]bool{},
	}
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
			for _, l := range w.do(strings.Fields(line)) {
				fmt.Fprintln(&out, "  "+l)
			}
		}
	}
	w.end()
	return out.String()
}
