package zktest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Fill lets every write of the process to a file fail from now on, as on a full
// disk, until Restart. A leader steps down, and the member serves nobody: it goes on
// trying to come back, and may end by that. It fails when the process is gone, and
// on other systems than Linux.
//
// No file may grow beyond 0 bytes, and the kernel refuses to write within, too; Java
// ignores the signal that comes with it and throws an IOException.
func (m *Member) Fill() error {
	var limit unix.Rlimit
	err := unix.Prlimit(m.Pid(), unix.RLIMIT_FSIZE, nil, &limit)
	if err == nil {
		limit.Cur = 0
		err = unix.Prlimit(m.Pid(), unix.RLIMIT_FSIZE, &limit, nil)
	}
	if err != nil {
		return fmt.Errorf("zktest: fill the disk of %q: %w", m.Name(), err)
	}
	return nil
}
