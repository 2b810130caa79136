package testserver

import (
	"fmt"
	"os"
)

const (
	lockFile = "in-use"
	memory   = "/dev/shm"
)

// Dir is a directory for the files of servers, marked as in use for as long as
// this process lives.
type Dir struct {
	path   string
	unlock func() // tell others that nobody uses it
}

// MakeDir makes a temporary directory, in memory if there is such a thing and it
// is wanted. Its name begins with prefix; what earlier tests with the same prefix
// have left behind when they died is removed, on Linux. The caller removes it.
func MakeDir(prefix string, inMemory bool) (*Dir, error) {
	if inMemory {
		// Not there, or not for us: a disk will do.
		if dir, err := makeDirIn(memory, prefix); err == nil {
			return dir, nil
		}
	}
	return makeDirIn(os.TempDir(), prefix)
}

func makeDirIn(base, prefix string) (*Dir, error) {
	pattern := prefix + "-*"
	sweep(base, pattern)
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

// Path is where it is.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory and all that is in it.
func (d *Dir) Remove() error {
	defer d.unlock()
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("testserver: remove data: %w", err)
	}
	return nil
}
