package pgtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Kill ends the postmaster and all its children at once (SIGKILL), as a crash of the machine
// does, and returns when they are gone. Further calls do nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	if p == nil {
		return
	}
	// A postmaster that is stopped starts no process, and does not see one end.
	_ = p.Pause() // it may have ended
	all := s.children()
	for _, child := range all {
		_ = kill(child)
	}
	p.Halt()
	for _, child := range all {
		waitGone(child)
	}
	s.removeClockMemory(p.Pid())
	clear(s.paused)
	_ = s.watch() // it has nothing to end
	status, err := s.status(p.Pid())
	if err == nil {
		s.unlinkSegment(status.segment) // a postmaster that has restarted its children has a new one
	}
}

// Stop shuts the server down (SIGINT, a fast shutdown): its clients are cut off, and what it has
// in memory is written. Stop returns when its processes are gone. If ctx ends first, Stop returns
// an error and the shutdown goes on, that of a paused server when it is resumed. It fails when
// the server is not running.
func (s *Server) Stop(ctx context.Context) error {
	p := s.running()
	if err := p.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("pgtest: stop: %w", err)
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pgtest: stop: %w", context.Cause(ctx))
	}
}

// Restart kills the server if it still runs and starts it again with the same data and the same
// address. It returns when the server accepts clients, after the recovery from a crash. If ctx
// ends first, Restart returns an error and the server goes on. It fails after Close, which also
// ends a Restart. Do not restart a server twice at the same time.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	return s.launch(ctx)
}

// Pause stops all processes of the server (SIGSTOP): connections stay open and the server
// does not answer. It fails when the server is not running, and on systems without that signal.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// First the postmaster, so that it starts no process.
	if err := s.process.Pause(); err != nil {
		return fmt.Errorf("pgtest: pause: %w", err)
	}
	if err := s.pause(s.children()...); err != nil {
		return fmt.Errorf("pgtest: pause: %w", err)
	}
	return nil
}

// Resume resumes all processes of a paused server (SIGCONT), also those that PauseProcess has
// stopped. It fails when the server is not running.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.paused {
		_ = resume(pid) // it may have ended
	}
	clear(s.paused)
	if err := s.watch(); err != nil {
		return fmt.Errorf("pgtest: resume: %w", err)
	}
	if err := s.process.Resume(); err != nil {
		return fmt.Errorf("pgtest: resume: %w", err)
	}
	return nil
}

// PauseProcess stops one process of the server (SIGSTOP), such as the backend of a connection. Its
// id is the one that pg_backend_pid and pg_stat_activity show. PauseProcess fails if the server
// has no such process.
func (s *Server) PauseProcess(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.has(pid); err != nil {
		return fmt.Errorf("pgtest: pause process %d: %w", pid, err)
	}
	if err := s.pause(pid); err != nil {
		return fmt.Errorf("pgtest: pause process %d: %w", pid, err)
	}
	return nil
}

// ResumeProcess resumes a process that PauseProcess has stopped (SIGCONT). It fails like
// PauseProcess.
func (s *Server) ResumeProcess(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.has(pid); err != nil {
		return fmt.Errorf("pgtest: resume process %d: %w", pid, err)
	}
	if err := resume(pid); err != nil {
		return fmt.Errorf("pgtest: resume process %d: %w", pid, err)
	}
	delete(s.paused, pid)
	return s.watch()
}

// KillProcess ends one process of the server (SIGKILL), such as the backend of a connection. The
// postmaster then ends all others and starts again by itself: it recovers as from a crash. It
// fails like PauseProcess.
func (s *Server) KillProcess(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.has(pid); err != nil {
		return fmt.Errorf("pgtest: kill process %d: %w", pid, err)
	}
	if err := kill(pid); err != nil {
		return fmt.Errorf("pgtest: kill process %d: %w", pid, err)
	}
	delete(s.paused, pid)
	return s.watch()
}

// children returns the processes of the server but its postmaster.
func (s *Server) children() []int {
	select {
	case <-s.process.Done():
		return children(0, s.data)
	default:
		return children(s.process.Pid(), s.data)
	}
}

// has returns an error if a process is not a child of the server.
func (s *Server) has(pid int) error {
	if slices.Contains(s.children(), pid) {
		return nil
	}
	return errors.New("the server has no such process")
}

// pause stops processes. The guard knows them before that.
func (s *Server) pause(pids ...int) error {
	for _, pid := range pids {
		s.paused[pid] = true
	}
	if err := s.watch(); err != nil {
		return err
	}
	for _, pid := range pids {
		if err := stop(pid); err != nil {
			return err
		}
	}
	return nil
}

// watch gives the guard the processes that are paused now.
func (s *Server) watch() (err error) {
	if s.guard == nil {
		if len(s.paused) == 0 {
			return nil
		}
		s.guard, err = newGuard()
		if err != nil {
			return err
		}
	}
	return s.guard.set(slices.Sorted(maps.Keys(s.paused)))
}
