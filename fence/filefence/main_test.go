//go:build unix

package filefence

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		crash()
	}
	os.Exit(fencetest.Main(m, open))
}

// open returns a client of the files in a folder.
func open(_ context.Context, dir string, k fencetest.Kind) (fencetest.Client, error) {
	if k == fencetest.Plain {
		return plain(dir), nil
	}
	return files(dir), nil
}

// files is a folder of files that this package checks.
type files string

func (d files) Read(ctx context.Context, resource string, t session.Token) (string, error) {
	data, err := Read(ctx, filepath.Join(string(d), resource), t, session.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

func (d files) Write(ctx context.Context, resource string, t session.Token, value string) error {
	return Write(ctx, filepath.Join(string(d), resource), []byte(value), 0o600, t)
}

// plain is the same without checks.
type plain string

func (d plain) Read(_ context.Context, resource string, _ session.Token) (string, error) {
	data, err := os.ReadFile(filepath.Join(string(d), resource))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

func (d plain) Write(_ context.Context, resource string, _ session.Token, value string) error {
	path := filepath.Join(string(d), resource)
	temporary := path + "." + rand.Text()
	err := os.WriteFile(temporary, []byte(value), 0o600)
	if err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
