package fencetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/session"
)

// env has the kind and the address for a worker: this test's own program.
const env = "FAIRLOCK_FENCETEST"

// What a worker prints.
const (
	hasRead = "read"   // and writes with the next line of its input
	again   = "again"  // it writes once more then, as if it had missed the answer
	done    = "done"   // the update was acknowledged
	stale   = "stale"  // refused: the update may be there from an earlier attempt
	failed  = "failed" // and why: the outcome is unknown
)

// Main is what TestMain calls. It runs the tests, or in a process that [Run] has started, the
// rounds of a worker.
func Main(m *testing.M, open Opener) (code int) {
	job, isWorker := os.LookupEnv(env)
	if !isWorker {
		return m.Run()
	}
	kind, address, _ := strings.Cut(job, " ")
	c, err := open.open(context.Background(), address, Kind(kind))
	if err == nil {
		err = rounds(c, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// rounds runs one round for each line "RESOURCE TOKEN ATTEMPTS". Each step of a round begins
// with a line of the input.
func rounds(c Client, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var resource string
		var token session.Token
		var attempts int
		_, err := fmt.Sscan(lines.Text(), &resource, &token, &attempts)
		if err != nil {
			return fmt.Errorf("fencetest: %q: %w", lines.Text(), err)
		}
		value, err := c.Read(context.Background(), resource, token)
		text := hasRead
		for err == nil && attempts > 0 {
			_, _ = fmt.Fprintln(out, text) // the reader of a killed worker may be gone
			if !lines.Scan() {
				return nil
			}
			err = c.Write(context.Background(), resource, token, with(value, token))
			attempts--
			text = again
		}
		_, _ = fmt.Fprintln(out, outcome(err))
	}
	return lines.Err()
}

func outcome(err error) string {
	switch {
	case err == nil:
		return done
	case errors.Is(err, fence.ErrStale):
		return stale
	}
	return failed + " " + strings.ReplaceAll(err.Error(), "\n", " ")
}

// worker is a process of the load.
type worker struct {
	*process.Process
	lines chan string // of its output; closed at its end
	token session.Token
}

func startWorker(address string, k Kind) (*worker, error) {
	cmd, err := process.Self(context.Background(), env, string(k)+" "+address)
	if err != nil {
		return nil, err
	}
	w := &worker{Process: process.StartPiped(cmd), lines: make(chan string, 8)}
	go func() { // ends with the process
		defer close(w.lines)
		for s := bufio.NewScanner(w); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	return w, nil
}

// send begins the next step.
func (w *worker) send(line string) { _, _ = io.WriteString(w, line+"\n") }
