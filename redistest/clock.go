package redistest

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// clockSource is preloaded into the servers. The libfaketime that other tests use does not work
// with Debian's Redis: its allocator reads the clock, and the library allocates.
//
//go:embed preload/clock.c
var clockSource string

// clock is the clock of one server.
type clock struct {
	library string // that is preloaded
	file    string // how far it is ahead
}

// newClock compiles the library into a directory. The clock shows the machine's time at first.
func newClock(ctx context.Context, dir string) (*clock, error) {
	c := &clock{library: filepath.Join(dir, "clock.so"), file: filepath.Join(dir, "clock")}
	if err := c.compile(ctx); err != nil {
		return nil, err
	}
	return c, c.set(0)
}

func (c *clock) compile(ctx context.Context) error {
	compiler := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	program, err := exec.LookPath(compiler[0])
	if err != nil {
		return fmt.Errorf("redistest: clock: no C compiler %q here: %s, or set CC to one", compiler[0], toInstallCompiler)
	}
	cmd := exec.CommandContext(ctx, program, append(compiler[1:], "-O2", "-fPIC", "-shared", "-x", "c", "-", "-o", c.library)...)
	cmd.Stdin = strings.NewReader(clockSource)
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("redistest: clock: %w", context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("redistest: clock: %s: %w: %s (%s)", program, err, strings.TrimSpace(string(output)), toInstallCompiler)
	}
	return nil
}

const toInstallCompiler = "run \"make redis\" in a clone of Fairlock, or install one (Debian: apt-get install gcc libc6-dev)"

func (c *clock) environment() []string {
	return []string{"LD_PRELOAD=" + c.library, "REDISTEST_CLOCK=" + c.file}
}

// set writes all 8 bytes at once, into the memory that the server reads.
func (c *clock) set(ahead time.Duration) error {
	file, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: set the clock: %w", err)
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0)
	err = errors.Join(err, file.Close())
	if err != nil {
		return fmt.Errorf("redistest: set the clock: %w", err)
	}
	return nil
}

// SetClock makes the clock of the server run that far ahead of the machine's, or behind it if
// negative. The server sees it at once. It fails without Options.Clock.
func (s *Server) SetClock(ahead time.Duration) error {
	if s.clock == nil {
		return errors.New("redistest: set the clock: only a server with Options.Clock has one")
	}
	return s.clock.set(ahead)
}
