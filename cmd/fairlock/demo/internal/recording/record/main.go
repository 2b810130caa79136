// Command record records what a program shows on a terminal: record -o FILE PROGRAM ARG...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/recording"
)

// How long the typed command and the end are shown, and the interval between the pictures.
const (
	read  = time.Second
	every = 250 * time.Millisecond
	hold  = 6 * time.Second
)

func main() {
	out := flag.String("o", "film.svg", "the `FILE` to write")
	title := flag.String("title", "", "a description for readers who cannot see the picture")
	flag.Parse()
	if err := run(*out, *title, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "record: %v\n", err)
		os.Exit(1)
	}
}

func run(out, title string, command []string) error {
	if len(command) == 0 {
		return fmt.Errorf("want a program to run")
	}
	size := recording.Size{Columns: 80, Rows: 24}
	chunks, err := recording.Record(context.Background(), size, command[0], command[1:]...)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	typed := strings.Join(append([]string{filepath.Base(command[0])}, command[1:]...), " ")
	frames := recording.Frames(typed, chunks, size, every, read, hold)
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	err = recording.SVG(f, title, size, frames)
	if err != nil {
		return err
	}
	err = f.Close()
	if err != nil {
		return err
	}
	info, err := os.Stat(out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d frames, %d kB\n", out, len(frames), info.Size()/1024)
	return nil
}
