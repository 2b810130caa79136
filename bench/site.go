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

// A site is running servers and where contestants run on them: in this process; or, with an
// earlier commit among them, each in a worker, the peer as well.
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

// open opens a crew, and the worker of its contestant if that is the first one there.
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
		if w, err = s.start(ctx, program); err != nil {
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

// worker is a process that a contestant has for itself.
type worker struct {
	*drive.Worker
	process *exec.Cmd
	in      io.Closer
	said    *bytes.Buffer // what it complains of
}

// start starts a worker, which ends with ctx at the latest.
func (s *site) start(ctx context.Context, program string) (*worker, error) {
	at, err := json.Marshal(s.at)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, program, s.service.Name, string(at))
	said := new(bytes.Buffer)
	process.Stderr = said
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	process.Cancel, process.WaitDelay = in.Close, workerEnds
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return &worker{drive.NewWorker(in, out), process, in, said}, nil
}

// workerEnds is how long a worker may take to close its sessions when it is to end.
const workerEnds = 30 * time.Second

// close lets the worker end and waits for that. One that does not end is killed.
func (w *worker) close() error {
	_ = w.in.Close() // it may be closed already
	kill := time.AfterFunc(workerEnds, func() { _ = w.process.Process.Kill() })
	defer kill.Stop()
	if err := w.process.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, w.said)
	}
	return nil
}
