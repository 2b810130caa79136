package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	clockVariable = "FAIRLOCK_FAKETIME"
	debianClock   = "/usr/lib/*/faketime/libfaketime.so.1"
	clockFile     = "clock"
)

// findClock returns the library that lets the clock of a server be set.
func findClock() (string, error) {
	set := os.Getenv(clockVariable)
	found, err := filepath.Glob(cmp.Or(set, debianClock))
	switch {
	case err != nil:
		return "", fmt.Errorf("pgtest: find libfaketime: %w", err)
	case len(found) > 0:
		return filepath.Abs(found[0])
	case set != "":
		return "", fmt.Errorf("pgtest: %s is %q, which does not exist: set it to libfaketime.so.1 or unset it", clockVariable, set)
	}
	return "", fmt.Errorf("pgtest: no libfaketime here: install it (Debian: apt-get install faketime), or set %s to libfaketime.so.1", clockVariable)
}

// addClock makes the clock of a server, which shows the machine's time at first.
func (s *Server) addClock() (err error) {
	s.clock, err = findClock()
	if err != nil {
		return err
	}
	return s.SetClock(0)
}

// clockEnvironment are the variables of a server whose clock can be set. Each look at the clock
// reads the file, so a change is seen at once. The monotonic clock is that of the machine, as
// if an operator had set the other.
func (s *Server) clockEnvironment() []string {
	return []string{
		"LD_PRELOAD=" + s.clock,
		"FAKETIME_TIMESTAMP_FILE=" + filepath.Join(s.dir.Path(), clockFile),
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		"FAKETIME_DISABLE_SHM=1", // version 0.9.10 does not know it: see below
	}
}

// removeClockMemory removes the shared memory in which the library notes when a postmaster has
// started, and its semaphore. No process opens them later. A process that exits by itself removes
// them too.
//
// Not handled: they stay if the test process dies while the server starts.
func (s *Server) removeClockMemory(postmaster int) {
	if s.clock == "" {
		return
	}
	for _, name := range []string{"faketime_shm_", "sem.faketime_sem_"} {
		_ = os.Remove(filepath.Join("/dev/shm", name+strconv.Itoa(postmaster))) // it may be gone already
	}
}

// SetClock makes the clock of the server run that far ahead of the machine's, or behind it if
// negative. All processes of the server see it at once. It fails without Options.Clock.
func (s *Server) SetClock(ahead time.Duration) error {
	if s.clock == "" {
		return errors.New("pgtest: set the clock: only a server with Options.Clock has one")
	}
	// A process must not read half of the file.
	file := filepath.Join(s.dir.Path(), clockFile)
	next := file + ".next"
	sign := "+"
	if ahead < 0 {
		sign = ""
	}
	text := sign + strconv.FormatFloat(ahead.Seconds(), 'f', 6, 64) + "\n"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return fmt.Errorf("pgtest: set the clock: %w", err)
	}
	if err := s.as.own(next); err != nil {
		return fmt.Errorf("pgtest: set the clock: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("pgtest: set the clock: %w", err)
	}
	return nil
}
