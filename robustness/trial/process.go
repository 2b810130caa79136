package trial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// childEnv makes this program a client process; its value is a job.
const childEnv = "FAIRLOCK_REGIME_CHILD"

// job is what a client process is to do: hold a line until it is told to stop.
type job struct {
	Service string
	Line    history.Line
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
func acquire(ctx context.Context, c Client, line history.Line, ask Ask, a history.Attempt) (*Belief, error) {
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

const (
	childPatience = 10 * time.Minute // longer than any trial
	stateEvery    = 2 * time.Millisecond
)

// Spawn starts this program again as a client process, and returns when that
// holds the line. The program's main must have called Child. Client is what the
// service's Opener there is given, as JSON.
func Spawn(ctx context.Context, service string, line history.Line, client any) (Process, error) {
	arg, err := json.Marshal(client)
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	text, err := json.Marshal(job{Service: service, Line: line, Client: arg})
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	c := &child{gone: make(chan struct{})}
	// It outlives the call; Stop or Kill ends it, and so does the end of its input.
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), self)
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	c.in, c.out = stdin, json.NewDecoder(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	if _, err := c.hear(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("trial: start a client: %w", err), c.Kill())
	}
	return c, nil
}

// child is a client in another process.
type child struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read when it is gone

	mu   sync.Mutex // one command at a time
	in   io.WriteCloser
	out  *json.Decoder
	reap sync.Once
	gone chan struct{}
}

// hear waits for one answer. If ctx ends first, the process is of no use any more
// but to be killed: the answer would be taken for that to the next command.
func (c *child) hear(ctx context.Context) (history.Attempt, error) {
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
		return history.Attempt{}, fmt.Errorf("trial: no answer from client process %d: %w", c.cmd.Process.Pid, ctx.Err())
	case h := <-answers:
		if h.err == nil && h.Err != "" {
			h.err = errors.New(h.Err)
		}
		return h.Attempt, h.err
	}
}

func (c *child) say(ctx context.Context, command string) (history.Attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, command+"\n"); err != nil {
		return history.Attempt{}, fmt.Errorf("trial: client process: %w", err)
	}
	return c.hear(ctx)
}

// Report implements Process.
func (c *child) Report(ctx context.Context) (history.Attempt, error) { return c.say(ctx, cmdReport) }

// Stop implements Process.
func (c *child) Stop(ctx context.Context) (history.Attempt, error) {
	a, err := c.say(ctx, cmdStop)
	if err != nil {
		return a, errors.Join(err, c.Kill())
	}
	_ = c.in.Close() // it may have gone already
	c.reap.Do(c.wait)
	select {
	case <-c.gone:
		return a, nil
	case <-ctx.Done():
		return a, errors.Join(ctx.Err(), c.Kill())
	}
}

// Kill implements Process.
func (c *child) Kill() error {
	err := c.cmd.Process.Kill()
	c.reap.Do(c.wait)
	<-c.gone
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// wait reaps the process when it is gone.
func (c *child) wait() {
	go func() { // ends with the process, which Kill and Stop see to
		_ = c.cmd.Wait() // how it ended is told by what it said
		close(c.gone)
	}()
}
