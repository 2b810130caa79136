package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/robustness/history"
)

// childEnv makes this program a client process; its value is a job.
const childEnv = "FAIRLOCK_ROBUSTNESS_CHILD"

// job is what a client process is to do: hold a line until it is told to stop.
type job struct {
	Service string
	Line    history.Queue
	Client  json.RawMessage // for the Opener
}

// Opener makes the client of a process, of what Spawn was given for it.
type Opener func(ctx context.Context, arg json.RawMessage) (Client, error)

// The commands that a client process takes, each answered by the record so far.
const (
	cmdReport = "report"
	cmdStop   = "stop"
)

// answer is what it says, first when it holds.
type answer struct {
	Attempt history.Attempt
	Err     string
}

// Child does the job that this process was started for by Spawn. It returns an
// exit code; false if this is no such process. Call it first in main and TestMain.
func Child(services map[string]Opener) (code int, isChild bool) {
	arg := os.Getenv(childEnv)
	if arg == "" {
		return 0, false
	}
	var j job
	err := json.Unmarshal([]byte(arg), &j)
	if err == nil {
		err = j.run(services[j.Service], os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func (j job) run(open Opener, in io.Reader, out io.Writer) error {
	if open == nil {
		return fmt.Errorf("trial: child: no service %q", j.Service)
	}
	ctx, cancel := context.WithTimeout(context.Background(), childPatience)
	defer cancel()
	c, err := open(ctx, j.Client)
	if err != nil {
		return err
	}
	says := json.NewEncoder(out)
	b, err := acquire(ctx, c, j.Line, Ask{Weight: 1}, history.Attempt{})
	if err != nil {
		return errors.Join(err, says.Encode(answer{Err: err.Error()}), c.Close())
	}
	if err := says.Encode(answer{Attempt: b.Attempt()}); err != nil {
		return errors.Join(err, c.Close())
	}
	for lines := bufio.NewScanner(in); lines.Scan() && err == nil; {
		if lines.Text() == cmdStop {
			return errors.Join(says.Encode(answer{Attempt: b.Release(ctx)}), c.Close())
		}
		err = says.Encode(answer{Attempt: b.Attempt()})
	}
	b.Leave() // the parent is gone
	return errors.Join(err, c.Close())
}

// acquire asks for a lock, and believes in what comes of it. The record of one
// that came to nothing is in the error's place, see failed.
func acquire(ctx context.Context, c Client, line history.Queue, ask Ask, a history.Attempt) (*Belief, error) {
	a.Line, a.Shared, a.Weight, a.Nested = line.Name, ask.Shared, ask.Weight, ask.Within != nil
	a.Asked = Now()
	h, err := c.Acquire(ctx, line, ask)
	a.Got = Now()
	if err != nil {
		return nil, &failed{a: a, err: err}
	}
	a.Token, a.Place, a.Entry = h.Token(), h.Place(), h.Entry()
	return Believe(h, a), nil
}

// failed is an attempt that came to nothing.
type failed struct {
	a   history.Attempt
	err error
}

func (f *failed) Error() string { return f.err.Error() }
func (f *failed) Unwrap() error { return f.err }

const childPatience = 10 * time.Minute // longer than any trial

// Spawn starts this program again as a client process, and returns when that
// holds the line. The program's main must have called Child. Client is what the
// service's Opener there is given, as JSON.
func Spawn(ctx context.Context, service string, line history.Queue, client any) (*Process, error) {
	arg, err := json.Marshal(client)
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	text, err := json.Marshal(job{Service: service, Line: line, Client: arg})
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	// It outlives the call; Stop or Halt ends it, and so does the end of its input.
	cmd, err := process.Self(context.WithoutCancel(ctx), childEnv, string(text))
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	p := process.StartPiped(cmd)
	c := &Process{Process: p, out: json.NewDecoder(p)}
	if _, err := c.hear(ctx); err != nil {
		c.Halt()
		return nil, fmt.Errorf("trial: start a client: %w: %w", err, c.Err())
	}
	return c, nil
}

// Process is a client in another process. It holds, believes, and asks itself all
// the time whether it still does.
type Process struct {
	*process.Process
	out *json.Decoder
	mu  sync.Mutex // one command at a time
}

// hear waits for one answer. If ctx ends first, the process is of no use any more
// but to be killed: the answer would be taken for that to the next command.
func (c *Process) hear(ctx context.Context) (history.Attempt, error) {
	type heard struct {
		answer
		err error
	}
	answers := make(chan heard, 1)
	go func() { // ends with the answer, or with the process
		var h heard
		h.err = c.out.Decode(&h.answer)
		answers <- h
	}()
	select {
	case <-ctx.Done():
		return history.Attempt{}, fmt.Errorf("trial: no answer from client process %d: %w", c.Pid(), ctx.Err())
	case h := <-answers:
		if h.err == nil && h.Err != "" {
			h.err = errors.New(h.Err)
		}
		return h.Attempt, h.err
	}
}

func (c *Process) say(ctx context.Context, command string) (history.Attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		return history.Attempt{}, fmt.Errorf("trial: client process: %w", err)
	}
	return c.hear(ctx)
}

// Report is what its hold has seen until now.
func (c *Process) Report(ctx context.Context) (history.Attempt, error) { return c.say(ctx, cmdReport) }

// Stop has it give back, and ends it.
func (c *Process) Stop(ctx context.Context) (history.Attempt, error) {
	defer c.Halt()
	a, err := c.say(ctx, cmdStop)
	if err != nil {
		return a, err
	}
	c.CloseInput()
	select {
	case <-c.Done():
		return a, nil
	case <-ctx.Done():
		return a, ctx.Err()
	}
}
