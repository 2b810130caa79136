package testserver

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockDir marks a directory as in use for as long as this process lives.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// sweep removes what tests that died have left in base: memory, if base is
// /dev/shm. Only a directory with a lock file that nobody holds is removed, and
// none that is so young that its owner may not have come to locking it.
func sweep(base, pattern string) {
	dirs, err := filepath.Glob(filepath.Join(base, pattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Stat(filepath.Join(dir, lockFile))
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		unlock, err := lockDir(dir)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir) // another user's, perhaps
		unlock()
	}
}
