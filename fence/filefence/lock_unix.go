//go:build unix

package filefence

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An access that finds the lock taken tries again after these times, the last one repeatedly: a
// wait of the kernel's would not end with a context.
const (
	firstRetry = time.Millisecond
	lastRetry  = 20 * time.Millisecond
)

// lock locks a file, which it makes if it is not there. The lock is that of the open file, so it
// also excludes other goroutines, and ends with the process.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := ctx.Err()
		if err != nil {
			return nil, context.Cause(ctx)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		err = flock(f)
		if err == nil {
			if isAt(f, path) {
				return func() { _ = f.Close() }, nil
			}
			// An operator has deleted the file since: others lock a new one.
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isAt reports whether the path still names the open file.
func isAt(f *os.File, path string) bool {
	here, err1 := f.Stat()
	there, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(here, there)
}
