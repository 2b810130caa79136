package filefence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/fence"
)

// The names of what stands next to a file begin with its name and end with these.
const (
	markSuffix = ".fence"
	lockSuffix = ".fence.lock"
	newSuffix  = ".fence.new"
)

// readMarks returns the marks of a file: none if there are none yet. Marks that cannot be read
// are an error: to take them for none would let stale holds in.
func readMarks(path string) (m fence.Marks, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("filefence: marks %q: %w", path, err)
	}
	return m, nil
}

func (d disk) writeMarks(path string, m fence.Marks) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return d.replace(path+markSuffix, path+newSuffix, append(text, '\n'), 0o666)
}

// replace gives a file its new content by way of a temporary one, in steps of which each leaves
// the file whole. The caller has the lock, so the temporary file is its own.
func (d disk) replace(path, temporary string, data []byte, perm fs.FileMode) error {
	name := filepath.Ext(path) // for tests
	err := os.Remove(temporary)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("filefence: %w", err)
	}
	d.before("create" + name)
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("filefence: %w", err)
	}
	half := len(data) / 2
	_, err = f.Write(data[:half])
	d.before("write" + name)
	if err == nil {
		_, err = f.Write(data[half:])
	}
	d.before("sync" + name)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return fmt.Errorf("filefence: %w", err)
	}
	d.before("rename" + name)
	err = os.Rename(temporary, path)
	if err != nil {
		return fmt.Errorf("filefence: %w", err)
	}
	d.before("sync folder" + name)
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename survive a crash of the machine.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("filefence: %w", err)
	}
	err = errors.Join(f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("filefence: sync %q: %w", path, err)
	}
	return nil
}
