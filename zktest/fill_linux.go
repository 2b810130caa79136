package zktest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Fill makes every write of the process to a file fail from now on, as on a full disk,
// until Restart. A leader steps down, and the member serves no client: it keeps trying
// to come back, and may exit. Fill fails when the process is gone, and on other systems
// than Linux.
//
// It sets the largest size of a file to 0 bytes, and the kernel refuses writes within a
// file too; Java ignores the signal that comes with it and throws an IOException.
func (m *Member) Fill() error {
	p := m.running()
	err := os.ErrProcessDone
	select {
	case <-p.Done(): // its process id is 0, which is this process, or another one's soon
	default:
		err = limitFiles(p.Pid())
	}
	if err != nil {
		return fmt.Errorf("zktest: fill the disk of %q: %w", m.Name(), err)
	}
	return nil
}

// limitFiles sets the largest size of a process's files to 0.
func limitFiles(pid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return err
	}
	limit.Cur = 0
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil)
}
