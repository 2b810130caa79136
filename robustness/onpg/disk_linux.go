package onpg

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// diskSize is far more than a server needs.
const diskSize = 1 << 30

// disk is a file system in memory for the data of one server, which can be made as small as what
// is on it. It needs the right to mount one; without that there is none, and fill is not supported.
//
// Not handled: a process that is killed leaves it mounted.
type disk struct{ path string }

func newDisk() (*disk, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no disk of its own
	}
	path, err := os.MkdirTemp("", "robustness-disk-")
	if err != nil {
		return nil, err
	}
	d := &disk{path}
	err = unix.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("mode=0755,size=%d", diskSize))
	if errors.Is(err, unix.EPERM) {
		return nil, os.Remove(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("onpg: mount: %w", err), os.Remove(path))
	}
	return d, nil
}

// folder returns the folder for the data; "" if there is no disk.
func (d *disk) folder() string {
	if d == nil {
		return ""
	}
	return d.path
}

// fill takes away all room that is left.
func (d *disk) fill() error {
	if d == nil {
		return errors.ErrUnsupported
	}
	var err error
	for range 100 { // the server may write more meanwhile
		var at unix.Statfs_t
		err = unix.Statfs(d.path, &at)
		if err != nil {
			return fmt.Errorf("onpg: fill: %w", err)
		}
		err = d.resize((at.Blocks - at.Bfree) * uint64(at.Bsize)) //nolint:gosec // a size is positive
		if err == nil {
			return nil
		}
	}
	return err
}

// free makes room again.
func (d *disk) free() error {
	if d == nil {
		return nil
	}
	return d.resize(diskSize)
}

func (d *disk) resize(bytes uint64) error {
	if err := unix.Mount("tmpfs", d.path, "tmpfs", unix.MS_REMOUNT, fmt.Sprint("size=", bytes)); err != nil {
		return fmt.Errorf("onpg: resize %s: %w", d.path, err)
	}
	return nil
}

func (d *disk) close() error {
	if err := unix.Unmount(d.path, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("onpg: unmount: %w", err)
	}
	return os.Remove(d.path)
}
