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

// childEnv is the variable that makes this program a client process. Its value is a job.
const childEnv = "FAIRLOCK_ROBUSTNESS_CHILD"

// job is the task of a client process: to hold a lock until it gets the stop command.
type job struct {
	Service string
	Queue   history.Queue
	Request Request
	Client  json.RawMessage // for the Opener
}

// Opener opens the client of a client process. arg is the client argument of Spawn.
type Opener func(ctx context.Context, arg json.RawMessage) (Client, error)

// The commands of a client process. It answers each with its record so far.
const (
	cmdReport = "report"
	cmdStop   = "stop"
)

// answer is what a client process writes: when it holds, and after each command.
type answer struct {
	Attempt history.Attempt
	Err     string
}

// Child runs the job for which Spawn started this process, and returns an exit code.
// isChild is false if Spawn did not start this process. Call Child first in main and
// TestMain.
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
	ctx, cancel := context.WithTimeout(context.Background(), childTimeout)
	defer cancel()
	c, err := open(ctx, j.Client)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	p := newParticipant(0, c, j.Queue, nil, j.Request, -1)
	p.start() //nolint:contextcheck // it ends with this process
	await(ctx, p.got, childTimeout)
	if p.currentMonitor() == nil {
		err := fmt.Errorf("trial: child: no hold: %s", p.attempt().Failed)
		return errors.Join(err, enc.Encode(answer{Err: err.Error()}), c.Close())
	}
	if err := enc.Encode(answer{Attempt: p.attempt()}); err != nil {
		return errors.Join(err, c.Close())
	}
	for lines := bufio.NewScanner(in); lines.Scan() && err == nil; {
		if lines.Text() == cmdStop {
			p.release()
			<-p.done
			return errors.Join(enc.Encode(answer{Attempt: p.attempt()}), c.Close())
		}
		err = enc.Encode(answer{Attempt: p.attempt()})
	}
	return errors.Join(err, c.Close()) // the parent process has ended
}

// acquire acquires a lock and starts a Monitor for the hold. If that fails, the error is
// a *failedAttempt with the record.
func acquire(ctx context.Context, c Client, queue history.Queue, req Request, a history.Attempt) (*Monitor, error) {
	a.Queue, a.Shared, a.Weight, a.Nested = queue.Name, req.Shared, req.Weight, req.Within != nil
	a.Asked = Now()
	h, err := c.Acquire(ctx, queue, req)
	if err != nil {
		a.Got = Now()
		return nil, &failedAttempt{a: a, err: err}
	}
	return monitorHold(h, a, req), nil
}

// monitorHold starts a Monitor for a hold that was granted now.
func monitorHold(h Hold, a history.Attempt, req Request) *Monitor {
	a.Got = Now()
	a.Token, a.Place, a.Entry = h.Token(), h.Place(), h.Entry()
	return StartMonitor(h, a, req.Quiet)
}

// failedAttempt is the error of an attempt that got no hold.
type failedAttempt struct {
	a   history.Attempt
	err error
}

func (f *failedAttempt) Error() string { return f.err.Error() }
func (f *failedAttempt) Unwrap() error { return f.err }

const childTimeout = 10 * time.Minute // longer than any trial

// Spawn starts this program again as a client process, and returns when that process
// holds the lock. The program's main must call Child. client is passed, as JSON, to the
// service's Opener in that process.
func Spawn(ctx context.Context, service string, queue history.Queue, req Request, client any) (*Process, error) {
	arg, err := json.Marshal(client)
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	text, err := json.Marshal(job{Service: service, Queue: queue, Request: req, Client: arg})
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	// The process outlives the call. Stop, Halt or the end of its input ends it.
	cmd, err := process.Self(context.WithoutCancel(ctx), childEnv, string(text))
	if err != nil {
		return nil, fmt.Errorf("trial: start a client: %w", err)
	}
	p := process.StartPiped(cmd)
	c := &Process{Process: p, out: json.NewDecoder(p)}
	if _, err := c.readAnswer(ctx); err != nil {
		c.Halt()
		return nil, fmt.Errorf("trial: start a client: %w: %w", err, c.Err())
	}
	return c, nil
}

// Process is a client in another process. It holds a lock, and polls its hold there.
type Process struct {
	*process.Process
	out *json.Decoder
	mu  sync.Mutex // one command at a time
}

// readAnswer waits for one answer. If ctx ends first, it kills the process: the late answer
// would be read as the answer to the next command, by two goroutines at once.
func (c *Process) readAnswer(ctx context.Context) (history.Attempt, error) {
	type result struct {
		answer
		err error
	}
	answers := make(chan result, 1)
	go func() { // ends with the answer, or with the process
		var r result
		r.err = c.out.Decode(&r.answer)
		answers <- r
	}()
	select {
	case <-ctx.Done():
		c.Halt()
		return history.Attempt{}, fmt.Errorf("trial: no answer from client process %d: %w", c.Pid(), ctx.Err())
	case r := <-answers:
		if r.err == nil && r.Err != "" {
			r.err = errors.New(r.Err)
		}
		return r.Attempt, r.err
	}
}

func (c *Process) send(ctx context.Context, command string) (history.Attempt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		return history.Attempt{}, fmt.Errorf("trial: client process: %w", err)
	}
	return c.readAnswer(ctx)
}

// Report returns the record of its hold so far.
func (c *Process) Report(ctx context.Context) (history.Attempt, error) { return c.send(ctx, cmdReport) }

// Stop makes it release its lock, and ends it.
func (c *Process) Stop(ctx context.Context) (history.Attempt, error) {
	defer c.Halt()
	a, err := c.send(ctx, cmdStop)
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
