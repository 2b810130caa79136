package etcdtest

import (
	"fmt"
	"os"
)

const (
	dirPattern = "etcdtest-*"
	lockFile   = "in-use"
	memory     = "/dev/shm"
)

// dataDir is where a cluster keeps its files.
type dataDir struct {
	path   string
	unlock func() // tell others that nobody uses it
}

func (d *dataDir) remove() error {
	defer d.unlock()
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("etcdtest: remove data: %w", err)
	}
	return nil
}

// makeDir makes a temporary directory, in memory if possible and wanted.
func makeDir(inMemory bool) (*dataDir, error) {
	if inMemory {
		// Not there, or not for us: a disk will do.
		if dir, err := makeDirIn(memory); err == nil {
			return dir, nil
		}
	}
	return makeDirIn(os.TempDir())
}

func makeDirIn(base string) (*dataDir, error) {
	sweep(base)
	path, err := os.MkdirTemp(base, dirPattern)
	if err != nil {
		return nil, fmt.Errorf("etcdtest: data directory: %w", err)
	}
	unlock, err := lockDir(path)
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("etcdtest: data directory: %w", err)
	}
	return &dataDir{path: path, unlock: unlock}, nil
}
