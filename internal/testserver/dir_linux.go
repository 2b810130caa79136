package testserver

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockDir marks a directory as in use while this process lives.
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

// sweep removes what tests that died have left in base; that is memory, if base
// is /dev/shm. It removes only directories with a lock file that no process
// holds, and skips those younger than a minute, which their owner may not have
// locked yet.
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
		_ = os.RemoveAll(dir) // fails if it belongs to another user
		unlock()
	}
}
