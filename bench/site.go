package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// A site is running servers, and the place where contestants run: this process or, if an earlier
// commit is among them, a worker for each contestant, also for the peer.
type site struct {
	service stand.Service
	at      stand.Addresses
	old     *old
	local   stand.Stand
	workers map[string]*worker // by contestant
}

func (s *site) attach(ctx context.Context) (err error) {
	if s.old == nil {
		s.local, err = s.service.Attach(ctx, s.at)
	}
	return err
}

// open opens a crew. It starts the worker of the crew's contestant if there is none.
func (s *site) open(ctx context.Context, o drive.Opening) (drive.Crew, error) {
	if s.old == nil {
		return drive.Local(ctx, s.local, o)
	}
	name := o.Contestant.Name
	w := s.workers[name]
	if w == nil {
		program := s.old.newWorker
		if o.Contestant.Old {
			program = s.old.oldWorker
		}
		var err error
		w, err = s.start(ctx, program)
		if err != nil {
			return nil, err
		}
		if s.workers == nil {
			s.workers = map[string]*worker{}
		}
		s.workers[name] = w
	}
	return w.Open(ctx, o)
}

// close ends the workers.
func (s *site) close() error {
	var errs []error
	for name, w := range s.workers {
		if err := w.close(); err != nil {
			errs = append(errs, fmt.Errorf("worker of %q: %w", name, err))
		}
	}
	if s.local != nil {
		errs = append(errs, s.local.Close())
	}
	return errors.Join(errs...)
}

// worker is the process of one contestant.
type worker struct {
	*drive.Worker
	process *exec.Cmd
	in      io.Closer
	stderr  *bytes.Buffer // what the process wrote to stderr
}

// start starts a worker, which ends with ctx at the latest.
func (s *site) start(ctx context.Context, program string) (*worker, error) {
	at, err := json.Marshal(s.at)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, program, s.service.Name, string(at))
	stderr := new(bytes.Buffer)
	process.Stderr = stderr
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	process.Cancel, process.WaitDelay = in.Close, workerTimeout
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return &worker{drive.NewWorker(in, out), process, in, stderr}, nil
}

// workerTimeout is how long a worker may take to close its sessions at its end.
const workerTimeout = 30 * time.Second

// close ends the worker: it closes its input, waits, and kills it after workerTimeout.
func (w *worker) close() error {
	_ = w.in.Close() // it may be closed already
	kill := time.AfterFunc(workerTimeout, func() { _ = w.process.Process.Kill() })
	defer kill.Stop()
	if err := w.process.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, w.stderr)
	}
	return nil
}
