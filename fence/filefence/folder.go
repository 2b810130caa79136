package filefence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/session"
)

// Folder is a folder that keeps the marks of resources by their names: of such as are no files, or
// elsewhere. It implements httpfence.Marks. The folder must exist; processes of one machine may
// share it. It has two small files for each resource, and the data of none.
type Folder string

// Touch records a token for a resource, as a file's first access does. It is on the disk when Touch
// returns nil. Touch is a check alone: an access that follows it can come after a newer one, unless
// the caller lets no other access in between.
func (d Folder) Touch(ctx context.Context, resource string, t session.Token, mode session.Mode) error {
	return Do(ctx, d.path(resource), t, mode, func() error { return nil })
}

// Forget removes the mark of a resource that is gone for good. If the resource comes back, tokens
// of any height are accepted.
func (d Folder) Forget(ctx context.Context, resource string) error {
	path := d.path(resource)
	unlock, err := lock(ctx, path+lockSuffix)
	if err != nil {
		return fmt.Errorf("filefence: lock %q: %w", path, err)
	}
	defer unlock()
	err = os.Remove(path + markSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("filefence: %w", err)
	}
	_ = os.Remove(path + newSuffix)
	return os.Remove(path + lockSuffix) // a waiter makes a new one
}

// path has no name of the resource in it: names can be longer than those of files, and differ only
// in what a file system takes for the same.
func (d Folder) path(resource string) string {
	sum := sha256.Sum256([]byte(resource))
	return filepath.Join(string(d), hex.EncodeToString(sum[:]))
}
