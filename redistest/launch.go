package redistest

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
)

const pollEvery = 5 * time.Millisecond

// launch starts the server and returns when it serves clients.
func (s *Server) launch(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	p := s.running()
	progressing, cancel := testserver.Progressing(ctx, s.opts.StartTimeout, p.StderrLen)
	defer cancel()
	return s.waitReady(progressing, p)
}

// start starts the process, which must not be running.
func (s *Server) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redistest: start: %w", context.Cause(ctx))
	}
	arguments := []string{s.configFile()}
	if s.role.kind == sentinel {
		arguments = append(arguments, "--sentinel")
	}
	// ctx bounds only the start: the process outlives it.
	cmd := process.Command(context.WithoutCancel(ctx), s.opts.Program, arguments...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.data, os.Environ(), ownGroup()
	if s.clock != nil {
		cmd.Env = append(cmd.Env, s.clock.environment()...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("redistest: start: %w", errClosed)
	}
	s.process = process.Start(cmd)
	return nil
}

// waitReady returns when the server has read its data and answers.
func (s *Server) waitReady(ctx context.Context, p *process.Process) error {
	for {
		err := s.ping(ctx, p)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("redistest: start: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("redistest: start: %w: the end of its log:\n%s", context.Cause(ctx), process.LastLines(p.Stderr(), 20))
		case <-time.After(pollEvery):
		}
	}
}

// ping returns nil if the server answers. The end of the process ends it too.
func (s *Server) ping(ctx context.Context, p *process.Process) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with cancel
		defer close(ended)
		select {
		case <-p.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	return s.Do(ctx, "PING").Error()
}
