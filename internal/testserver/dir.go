package testserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	lockFile = "in-use"
	memory   = "/dev/shm"

	// memoryNeeded is how many free bytes the file system in memory must have. An etcd
	// member allocates 128 MB before it serves, and panics if it cannot; containers
	// often have 64 MB in all.
	memoryNeeded = 1 << 30
)

// Dir is a directory for the files of servers, and has their ports. It is marked as in use while
// this process lives.
type Dir struct {
	path   string
	unlock func() // removes the mark
	ports  []io.Closer
}

// MakeDir makes a temporary directory, in memory if inMemory is set and the
// system has such a file system with at least 1 GiB free. Its name begins with
// prefix. On Linux, MakeDir removes what tests with the same prefix left behind
// when they died, at least a minute after they began. The caller removes the
// directory.
func MakeDir(prefix string, inMemory bool) (*Dir, error) {
	pattern := prefix + "-*"
	sweep(memory, pattern)
	sweep(os.TempDir(), pattern)
	if inMemory && memorySuffices(freeBytes(memory)) {
		// On an error, for example without access to /dev/shm, use the disk.
		if dir, err := makeDirIn(memory, pattern); err == nil {
			return dir, nil
		}
	}
	return makeDirIn(os.TempDir(), pattern)
}

func memorySuffices(free uint64) bool { return free >= memoryNeeded }

func makeDirIn(base, pattern string) (*Dir, error) {
	path, err := os.MkdirTemp(base, pattern)
	if err != nil {
		return nil, fmt.Errorf("testserver: data directory: %w", err)
	}
	unlock, err := lockDir(path)
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("testserver: data directory: %w", err)
	}
	return &Dir{path: path, unlock: unlock}, nil
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory and all that is in it, and frees the ports.
func (d *Dir) Remove() error {
	defer d.unlock()
	for _, p := range d.ports {
		_ = p.Close() // nothing was sent on it
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("testserver: remove data: %w", err)
	}
	return nil
}

// EmptyDir returns the absolute path of a directory, which stays true after a change of
// the working directory. It fails if there is no such directory or anything is in it.
func EmptyDir(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := os.Open(abs)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(1)
	switch {
	case errors.Is(err, io.EOF):
		return abs, nil
	case err != nil:
		return "", err
	default:
		return "", fmt.Errorf("directory %q is not empty: %q is in it", path, names[0])
	}
}
