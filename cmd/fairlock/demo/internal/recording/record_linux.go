package recording

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Record runs a program on a pseudo-terminal. It returns what the program wrote there and
// when, and the error with which it ended.
func Record(ctx context.Context, size Size, program string, args ...string) ([]Chunk, error) {
	ours, theirs, err := terminal(size)
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	defer func() { _ = ours.Close() }()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	var chunks []Chunk
	for {
		b := make([]byte, 64<<10)
		n, err := ours.Read(b)
		if n > 0 {
			chunks = append(chunks, Chunk{At: time.Since(began), Text: b[:n]})
		}
		if err != nil { // the program has closed the other side
			break
		}
	}
	return chunks, cmd.Wait()
}

// terminal creates a pseudo-terminal. What a program writes to theirs can be read from
// ours.
func terminal(size Size) (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	n := 0
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(size.Columns), Row: uint16(size.Rows)})
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
