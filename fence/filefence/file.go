package filefence

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/fairlock/fairlock/session"
)

// Read returns the content of a file, as os.ReadFile does, if the token is not outbid. It
// records the token, so it makes those of earlier holds stale, even if there is no such file
// yet and the error is fs.ErrNotExist. The folder must exist.
//
// ctx bounds the wait for other accesses to the file. Read is safe for concurrent use by any
// number of processes.
func Read(ctx context.Context, path string, t session.Token, mode session.Mode) ([]byte, error) {
	return disk{}.read(ctx, path, t, mode)
}

// Write replaces the content of a file by data, if the token is not outbid. The file has the
// permissions perm, before umask. A reader of the path sees the old or the new content, whole.
//
// The token is that of an exclusive hold. Writing again with the same token is allowed, so a
// caller that does not know the outcome may repeat the Write. What ctx does is as for Read; when
// the access has begun, it is not given up.
func Write(ctx context.Context, path string, data []byte, perm fs.FileMode, t session.Token) error {
	return disk{}.write(ctx, path, data, perm, t)
}

// Do calls fn if the token is not outbid, as one step for all that use this package with the same
// path. It is for accesses to several files, or to files that fn changes in place. fn must not
// call this package with that path. The token counts as seen whatever fn returns.
//
// Unlike Gate.Do of package fence, Do lets one fn run at a time, also of shared holds.
func Do(ctx context.Context, path string, t session.Token, mode session.Mode, fn func() error) error {
	return disk{}.do(ctx, path, t, mode, fn)
}

// disk does the accesses. Tests end the process at its steps.
type disk struct {
	// step is called before each step that a crash can prevent. Nil outside of tests.
	step func(name string)
}

func (d disk) before(step string) {
	if d.step != nil {
		d.step(step)
	}
}

func (d disk) read(ctx context.Context, path string, t session.Token, mode session.Mode) (data []byte, err error) {
	err = d.do(ctx, path, t, mode, func() error {
		data, err = os.ReadFile(path)
		return err
	})
	return data, err
}

func (d disk) write(ctx context.Context, path string, data []byte, perm fs.FileMode, t session.Token) error {
	return d.do(ctx, path, t, session.Exclusive, func() error {
		return d.replace(path, path+newSuffix, data, perm)
	})
}

func (d disk) do(ctx context.Context, path string, t session.Token, mode session.Mode, fn func() error) error {
	d.before("lock")
	unlock, err := lock(ctx, path+lockSuffix)
	if err != nil {
		return fmt.Errorf("filefence: lock %q: %w", path, err)
	}
	defer unlock()
	marks, err := readMarks(path + markSuffix)
	if err != nil {
		return err
	}
	after, err := marks.Touch(t, mode)
	if err != nil {
		return fmt.Errorf("filefence: %q: %w", path, err)
	}
	if after != marks {
		err = d.writeMarks(path, after)
		if err != nil {
			return err
		}
	}
	return fn()
}
