package filefence_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/filefence"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// appendLine is a work of a hold: its reads and writes show the token.
func appendLine(ctx context.Context, h *session.Hold, path, line string) error {
	data, err := filefence.Read(ctx, path, h.Token(), h.Mode())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return filefence.Write(ctx, path, append(data, line+"\n"...), 0o644, h.Token())
}

// A holder that has lost the lock without knowing it comes too late.
func ExampleWrite() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "filefence-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "report")
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m := mutex.New(s, "report")

	old, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // while the holder is stopped
	err = m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		return appendLine(ctx, h, path, "next")
	})
	fmt.Println("next holder:", err)

	err = appendLine(ctx, old, path, "old")
	fmt.Println("late holder is stale:", errors.Is(err, fence.ErrStale))
	data, err := os.ReadFile(path)
	fmt.Printf("%s%v\n", data, err)
	// Output:
	// next holder: <nil>
	// late holder is stale: true
	// next
	// <nil>
}

// Files that change together, or in place, are accessed in one step.
func ExampleDo() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "filefence-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log1, log2 := filepath.Join(dir, "log.1"), filepath.Join(dir, "log.2")
	rotate := func() error {
		err := os.Rename(log1, log2)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.WriteFile(log1, nil, 0o644)
	}

	fmt.Println(filefence.Do(ctx, log1, 42, session.Exclusive, rotate)) // h.Token(), h.Mode()
	fmt.Println(errors.Is(filefence.Do(ctx, log1, 41, session.Exclusive, rotate), fence.ErrStale))
	// Output:
	// <nil>
	// true
}
