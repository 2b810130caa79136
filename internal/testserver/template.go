package testserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A Template is the data of a new server, in memory: a folder would have to be removed when this
// process ends, which nothing here sees. Files with the same content share it, and zeros at the
// end of a file take no memory.
type Template struct {
	folders []string
	files   []templateFile
}

// templateFile is a file of a template.
type templateFile struct {
	path string // relative
	data []byte // without the zeros at the end; other files with the same content share it
	size int64
}

// ReadTemplate returns what is in a folder.
func ReadTemplate(root string) (*Template, error) {
	t, known := &Template{}, map[[sha256.Size]byte][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			t.folders = append(t.folders, relative)
			return nil
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data := bytes.TrimRight(whole, "\x00")
		sum := sha256.Sum256(data)
		if _, ok := known[sum]; !ok {
			known[sum] = bytes.Clone(data)
		}
		t.files = append(t.files, templateFile{relative, known[sum], int64(len(whole))})
		return nil
	})
	return t, err
}

// Write makes a copy at a path where nothing is. It calls own for each file and folder that it has
// made.
func (t *Template) Write(ctx context.Context, root string, own func(path string) error) error {
	for _, folder := range t.folders { // those above come first
		path := filepath.Join(root, folder)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := own(path); err != nil {
			return err
		}
	}
	for _, f := range t.files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		path := filepath.Join(root, f.path)
		if err := f.write(path); err != nil {
			return err
		}
		if err := own(path); err != nil {
			return err
		}
	}
	return nil
}

// write writes the file without holes: a server whose disk becomes full must still be able to
// write into the segment of its log that it has.
func (f templateFile) write(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.data)
	zeros := make([]byte, min(f.size-int64(len(f.data)), 1<<20))
	for left := f.size - int64(len(f.data)); left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = file.Write(zeros[:min(left, int64(len(zeros)))])
	}
	return errors.Join(err, file.Close())
}
