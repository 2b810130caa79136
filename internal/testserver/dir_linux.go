package testserver

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// lockDir marks a directory as in use while this process lives.
func lockDir(dir string) (unlock func(), err error) { return lock(dir, syscall.O_CREAT) }

// lock locks the lock file of a directory. It fails if another open file has the lock.
// It opens a plain descriptor: the garbage collector closes an os.File that nothing
// refers to, and the lock ends with it.
func lock(dir string, create int) (unlock func(), err error) {
	fd, err := syscall.Open(filepath.Join(dir, lockFile), create|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return sync.OnceFunc(func() { _ = syscall.Close(fd) }), nil
}

// freeBytes returns how much this process may write to a file system; 0 if that is
// not known.
func freeBytes(dir string) uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
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
		// Its owner may be removing it: a new lock file would make that fail.
		unlock, err := lock(dir, 0)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir) // fails if it belongs to another user
		unlock()
	}
}
