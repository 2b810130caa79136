package pgtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fairlock/fairlock/internal/process"
)

// A template is the data of a new database cluster, in memory: a folder would have to be
// removed when this process ends, which nothing here sees. Most of its files are the same in each of
// the three databases, so one takes 10 MB.
type template struct {
	folders []string
	files   []templateFile
}

// templateFile is a file of a template.
type templateFile struct {
	path string // relative
	data []byte // without the zeros at the end; other files with the same content share it
	size int64
}

// templates has one template for each folder of programs: initdb takes half a second.
var templates struct {
	sync.Mutex
	of map[string]*template
}

// templateOf returns the template of programs. It is made in dir the first time.
func templateOf(ctx context.Context, programs string, as serverUser, dir string) (*template, error) {
	templates.Lock()
	defer templates.Unlock()
	if t, ok := templates.of[programs]; ok {
		return t, nil
	}
	data := filepath.Join(dir, "template")
	defer func() { _ = os.RemoveAll(data) }() // the folder above it is removed too
	if err := initialize(ctx, programs, as, data); err != nil {
		return nil, err
	}
	t, err := readTemplate(data)
	if err != nil {
		return nil, fmt.Errorf("pgtest: read what initdb has made: %w", err)
	}
	if templates.of == nil {
		templates.of = map[string]*template{}
	}
	templates.of[programs] = t
	return t, nil
}

// initialize runs initdb.
func initialize(ctx context.Context, programs string, as serverUser, data string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "--pgdata", data, "--username", superuser,
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = filepath.Dir(data), environment(os.Environ()), as.attributes()
	p := process.Start(cmd)
	if err := p.Wait(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w", errors.Join(context.Cause(ctx), as.explain(err), errors.New(strings.TrimSpace(p.Stderr()))))
	}
	return nil
}

// environment returns the variables without those of PostgreSQL, and with messages in English.
func environment(all []string) []string {
	var kept []string
	for _, v := range all {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			kept = append(kept, v)
		}
	}
	return append(kept, "LC_ALL=C")
}

func readTemplate(root string) (*template, error) {
	t, known := &template{}, map[[sha256.Size]byte][]byte{}
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

// write makes a copy at a path where nothing is.
func (t *template) write(ctx context.Context, root string, as serverUser) error {
	for _, folder := range t.folders { // those above come first
		path := filepath.Join(root, folder)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := as.own(path); err != nil {
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
		if err := as.own(path); err != nil {
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
