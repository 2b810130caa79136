package mysqltest

import (
	"context"
	"fmt"
)

// Kill ends the server at once (SIGKILL), and returns when it is gone. Further calls do nothing.
func (s *Server) Kill() {
	p := s.running()
	if p != nil {
		p.Halt()
	}
}

// Stop shuts the server down (SIGTERM): its clients are cut off, and what it has in memory is
// written. Stop returns when its process is gone. If ctx ends first, Stop returns an error and
// the shutdown goes on, that of a paused server when it is resumed. It fails when the server is
// not running.
func (s *Server) Stop(ctx context.Context) error {
	p := s.running()
	if err := p.Terminate(); err != nil {
		return fmt.Errorf("mysqltest: stop: %w", err)
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mysqltest: stop: %w", context.Cause(ctx))
	}
}

// Restart kills the server if it still runs and starts it again with the same data and the same
// address. It returns when the server serves clients, after the recovery from a crash. If ctx
// ends first, Restart returns an error and the server goes on. It fails after Close, which also
// ends a Restart. Do not restart a server twice at the same time.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.launch(ctx)
}

// Pause stops the server (SIGSTOP): connections stay open and it does not answer. It fails when
// the server is not running, and on systems without that signal.
func (s *Server) Pause() error {
	if err := s.running().Pause(); err != nil {
		return fmt.Errorf("mysqltest: pause: %w", err)
	}
	return nil
}

// Resume resumes a paused server (SIGCONT). It fails like Pause.
func (s *Server) Resume() error {
	if err := s.running().Resume(); err != nil {
		return fmt.Errorf("mysqltest: resume: %w", err)
	}
	return nil
}
