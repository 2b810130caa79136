// Package aof reads the append-only file of a Redis server while the server writes it: every
// command that has changed something, in the order in which the server carried it out.
package aof

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Command is one command, with its arguments.
type Command struct {
	Args []string

	// At is the place in the file behind the command.
	At int64
}

// poll is how often the file is read. It is less than a hand-off takes, so that the caller does not see an
// old queue.
const poll = time.Millisecond / 2

// Find returns the file to which the server of a data directory appends. It has been there since the
// server serves clients, until the server rewrites it, which it does above 64 MB.
func Find(dir string) (string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*", "*.incr.aof"))
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%d append-only files in %s, want 1", len(all), dir)
	}
	if err != nil {
		return "", fmt.Errorf("aof: %w", err)
	}
	return all[0], nil
}

// Follow calls f with every command in a file, from the first one, until ctx ends. It returns nil then.
func Follow(ctx context.Context, path string, f func(Command)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("aof: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var rest []byte
	var at int64
	for {
		more, err := io.ReadAll(file)
		if err != nil {
			return fmt.Errorf("aof: %w", err)
		}
		rest = append(rest, more...)
		for {
			args, n, err := decode(rest)
			if errors.Is(err, errPart) {
				break
			}
			if err != nil {
				return fmt.Errorf("aof: at %d: %w", at, err)
			}
			rest, at = rest[n:], at+int64(n)
			if len(args) > 0 {
				f(Command{Args: args, At: at})
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// errPart is returned for a command that is not there as a whole yet.
var errPart = errors.New("part of a command")

// decode returns the first command, and how many bytes it takes. It has no arguments for an annotation,
// which is a line.
func decode(b []byte) (args []string, n int, err error) {
	r := bytes.NewReader(b)
	lines := bufio.NewReaderSize(r, 16)
	read := func(kind byte) (int, error) {
		line, err := lines.ReadBytes('\n')
		n += len(line)
		switch {
		case err != nil:
			return 0, errPart
		case line[0] == '#' && kind == '*':
			return 0, nil
		case line[0] != kind:
			return 0, fmt.Errorf("%q instead of a %c", line[0], kind)
		}
		count, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
		if err != nil || count < 0 {
			return 0, fmt.Errorf("%q is no count", line)
		}
		return count, nil
	}
	count, err := read('*')
	if err != nil {
		return nil, 0, err
	}
	for range count {
		size, err := read('$')
		if err != nil {
			return nil, 0, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(lines, text); err != nil {
			return nil, 0, errPart
		}
		n += len(text)
		args = append(args, string(text[:size]))
	}
	return args, n, nil
}
