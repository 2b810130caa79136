package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Kill ends the server at once (SIGKILL), and returns when it is gone. Further calls do nothing.
func (s *Server) Kill() {
	p := s.running()
	if p == nil {
		return
	}
	select {
	case <-p.Done():
	default:
		killGroup(p.Pid()) // with a child that writes a snapshot
		p.Halt()
	}
}

// Stop shuts the server down (SIGTERM), and returns when it is gone. A server with Snapshots
// writes one before. A master waits up to 10 s for replicas that lag, unless the setting
// "shutdown-timeout" is another. If ctx ends first, Stop returns an error and the shutdown goes
// on, that of a paused server when it is resumed. It fails when the server is not running.
func (s *Server) Stop(ctx context.Context) error {
	p := s.running()
	if err := p.Terminate(); err != nil {
		return fmt.Errorf("redistest: stop: %w", err)
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redistest: stop: %w", context.Cause(ctx))
	}
}

// Restart kills the server if it still runs and starts it again at the same address, with what
// Options.Persistence has kept and what CONFIG REWRITE has written. A replica then follows its
// last master, and a promoted one is a master. Restart returns when the server answers. If ctx
// ends first, it returns an error and the server goes on. It fails after Close, which also
// ends a Restart. Do not restart a server twice at the same time.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.launch(ctx)
}

// Wipe deletes the snapshots and logs of a server that is killed or stopped, so that Restart
// starts it empty. A node of a cluster remembers the cluster. Wipe fails while the server runs.
func (s *Server) Wipe() error {
	select {
	case <-s.running().Done():
	default:
		return errors.New("redistest: wipe: the server is running")
	}
	for _, pattern := range []string{"*.rdb", "appendonlydir"} {
		paths, _ := filepath.Glob(filepath.Join(s.data, pattern)) // the pattern is right
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("redistest: wipe: %w", err)
			}
		}
	}
	return nil
}

// Pause stops the server (SIGSTOP): connections stay open and it does not answer. What arrives
// meanwhile waits in its sockets, up to their size: see CutOff. It fails when the server is not
// running, and on systems without that signal.
func (s *Server) Pause() error {
	if err := s.running().Pause(); err != nil {
		return fmt.Errorf("redistest: pause: %w", err)
	}
	return nil
}

// Resume resumes a paused server (SIGCONT). It fails like Pause.
func (s *Server) Resume() error {
	if err := s.running().Resume(); err != nil {
		return fmt.Errorf("redistest: resume: %w", err)
	}
	return nil
}
