package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/process"
)

const (
	pollEvery = 5 * time.Millisecond
	pidFile   = "postmaster.pid"
)

// start starts the postmaster, which must not be running.
func (s *Server) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pgtest: start: %w", context.Cause(ctx))
	}
	// ctx bounds only the start: the process outlives it.
	cmd := process.Command(context.WithoutCancel(ctx), filepath.Join(s.opts.Programs, "postgres"), "-D", s.data)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir.Path(), environment(os.Environ()), s.as.attributes()
	if s.clock != "" {
		cmd.Env = append(cmd.Env, s.clockEnvironment()...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("pgtest: start: %w", errClosed)
	}
	s.process = process.Start(cmd)
	return nil
}

// waitReady returns when the postmaster accepts clients.
func (s *Server) waitReady(ctx context.Context, p *process.Process) error {
	for {
		status, err := s.status(p.Pid())
		if err == nil && status.ready {
			s.unlinkSegment(status.segment)
			s.removeClockMemory(p.Pid())
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("pgtest: start: %w", s.as.explain(p.Err()))
		case <-ctx.Done():
			return fmt.Errorf("pgtest: start: %w: the end of its log:\n%s", context.Cause(ctx), process.LastLines(p.Stderr(), 20))
		case <-time.After(pollEvery):
		}
	}
}

// status is what a postmaster writes into its file. See miscadmin.h of PostgreSQL for the lines.
type status struct {
	segment int  // the number of its segment of System V shared memory
	ready   bool // it accepts clients
}

func (s *Server) status(pid int) (status, error) {
	text, err := os.ReadFile(filepath.Join(s.data, pidFile))
	if err != nil {
		return status{}, err
	}
	return parseStatus(string(text), pid)
}

func parseStatus(text string, pid int) (status, error) {
	l := strings.Split(text, "\n")
	if len(l) < 8 || strings.TrimSpace(l[0]) != strconv.Itoa(pid) {
		return status{}, errors.New("it is not written yet")
	}
	_, number, found := strings.Cut(strings.TrimSpace(l[6]), " ")
	segment, err := strconv.Atoi(strings.TrimSpace(number))
	if !found || err != nil {
		segment = -1 // there is none
	}
	return status{segment: segment, ready: strings.TrimSpace(l[7]) == "ready"}, nil
}
