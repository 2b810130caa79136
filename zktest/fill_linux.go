package zktest

import (
	"fmt"

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
