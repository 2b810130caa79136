package zktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Kill ends the process at once (SIGKILL) and returns when it is gone. Further calls do
// nothing.
func (m *Member) Kill() { m.halt() }

// Pause stops the process (SIGSTOP): its connections stay open and it does not answer.
// It fails when the process is gone, and on systems without that signal.
func (m *Member) Pause() error {
	if err := m.running().Pause(); err != nil {
		return fmt.Errorf("zktest: pause %q: %w", m.Name(), err)
	}
	return nil
}

// Resume resumes a paused process (SIGCONT). It fails like Pause.
func (m *Member) Resume() error {
	if err := m.running().Resume(); err != nil {
		return fmt.Errorf("zktest: resume %q: %w", m.Name(), err)
	}
	return nil
}

// Stop sends SIGTERM to the process and returns when it is gone. If ctx ends first,
// Stop returns an error; a paused process exits when it is resumed. It fails like
// Pause.
func (m *Member) Stop(ctx context.Context) error {
	p := m.running()
	if err := p.Terminate(); err != nil {
		return fmt.Errorf("zktest: stop %q: %w", m.Name(), err)
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("zktest: stop %q: %w", m.Name(), ctx.Err())
	}
}

// Restart kills the process if it still runs and starts another with the same data and
// the same addresses. It returns when that one serves clients, which takes a majority
// of live members. If ctx ends first, Restart returns an error and the process keeps
// trying. It fails after Close, which also ends a Restart. Do not restart one member
// twice at the same time.
func (m *Member) Restart(ctx context.Context) error {
	m.halt()
	if err := m.clear(); err != nil {
		return fmt.Errorf("zktest: restart %q: %w", m.Name(), err)
	}
	if err := m.start(ctx); err != nil {
		return err
	}
	return m.waitReady(ctx)
}

// clear removes logs without a header. A member whose disk was full leaves such logs,
// and does not start with them. Operators remove them too (ZOOKEEPER-1621).
func (m *Member) clear() error {
	logs, err := filepath.Glob(filepath.Join(m.data(), "log.*"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		if info, err := os.Stat(log); err != nil || info.Size() >= int64(len(logMagic)) {
			continue
		}
		if err := os.Remove(log); err != nil {
			return err
		}
	}
	return nil
}

// Wipe deletes the data of a member that is killed or stopped: all of its transactions
// and its vote. It fails while the process runs.
func (m *Member) Wipe() error {
	select {
	case <-m.running().Done():
	default:
		return fmt.Errorf("zktest: wipe %q: %w", m.Name(), errors.New("it is running"))
	}
	if err := os.RemoveAll(m.data()); err != nil {
		return fmt.Errorf("zktest: wipe %q: %w", m.Name(), err)
	}
	return nil
}

// data is the folder of the member's snapshots, logs and epochs; "2" is the
// version of the format.
func (m *Member) data() string { return filepath.Join(m.dir, "data", "version-2") }
