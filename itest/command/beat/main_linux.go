// Command beat is the command that the cut-off trials run under a lock. It writes signs of
// life with the machine's own time to a file that it shares with others, and holds a shared
// lock on another file for as long as it lives. So the next command can check in two ways
// that no process before it is left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

const (
	// every is the time between two signs of life.
	every = 5 * time.Millisecond

	// longest is how long a process lives if it is not stopped.
	longest = 10 * time.Minute

	// codeNext is the exit code of the next command, whatever it found.
	codeNext = 8
)

// beat is one process.
type beat struct {
	clock driver.Clock
	as    string   // its name in its signs
	deaf  bool     // it ignores SIGTERM
	child string   // "mortal" or "deaf", the kind of its child; empty for none
	signs *os.File // append-only: each sign is one write, so they never mix
	alone *os.File // locked while one of the processes lives
}

func main() {
	clock := driver.SystemClock()
	began := clock.Now() // before anything else
	code, err := run(clock, began)
	if err != nil {
		fmt.Fprintln(os.Stderr, "beat:", err)
		code = 1
	}
	os.Exit(code)
}

func run(clock driver.Clock, began driver.Instant) (int, error) {
	b := &beat{clock: clock}
	signs := flag.String("signs", "", "where signs of life go")
	alone := flag.String("alone", "", "the file to lock")
	next := flag.Bool("next", false, "only check whether a process lives")
	flag.StringVar(&b.as, "as", "child", "what it calls itself")
	flag.BoolVar(&b.deaf, "deaf", false, "ignore SIGTERM")
	flag.StringVar(&b.child, "child", "", "start a child that is mortal or deaf")
	flag.Parse()
	var err error
	if b.signs, err = os.OpenFile(*signs, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return 0, err
	}
	// Each process opens the file itself: an inherited lock would last until all of them ended.
	if b.alone, err = os.OpenFile(*alone, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return 0, err
	}
	if *next {
		return codeNext, b.check(began)
	}
	return 0, b.live()
}

// sign writes one sign, which is one line.
func (b *beat) sign(at driver.Instant, what string) error {
	_, err := fmt.Fprintf(b.signs, "%d %s %d %s\n", int64(at), b.as, os.Getpid(), what)
	return err
}

// check writes when it began, and whether an earlier process lives. A process that was
// killed but has not ended yet can do nothing any more.
func (b *beat) check(began driver.Instant) error {
	b.as = "next"
	err := syscall.Flock(int(b.alone.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return b.sign(began, "alone")
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return err
	}
	text, err := os.ReadFile(b.signs.Name())
	if err != nil {
		return err
	}
	found, saw, pids := "dying", "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && !pids[f[2]] {
			pids[f[2]] = true
			s := statusOf(f[2])
			saw += fmt.Sprintf(" %s %+v", f[1], s)
			if s.alive() {
				found = "overlap"
			}
		}
	}
	return b.sign(began, found+saw)
}

// status is the status of a process in the kernel.
type status struct {
	state   string // empty if the process is gone
	pending uint64 // pending signals, as a mask
}

func statusOf(pid string) (s status) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); name {
		case "State":
			s.state = value[:1]
		case "SigPnd", "ShdPnd":
			n, err := strconv.ParseUint(value, 16, 64)
			if err == nil {
				s.pending |= n
			}
		}
	}
	return s
}

// alive reports whether the process can still do something.
func (s status) alive() bool {
	const killed = 1 << (syscall.SIGKILL - 1)
	return s.state != "" && s.state != "Z" && s.state != "X" && s.pending&killed == 0
}

// live writes signs of life until SIGTERM, or if it ignores that until it is killed.
func (b *beat) live() error {
	if err := syscall.Flock(int(b.alone.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", b.alone.Name(), err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if b.child != "" {
		if err := b.start(ctx); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ready := false; ; {
		if err := b.sign(b.clock.Now(), "alive"); err != nil {
			return err
		}
		if !ready {
			ready = true
			fmt.Println("ready")
		}
		select {
		case <-stop:
			if err := b.sign(b.clock.Now(), "stop"); err != nil || !b.deaf {
				return err
			}
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("it was not stopped")
		}
	}
}

// start starts a child like this process, and does not wait for it: its end is what the
// trial checks.
func (b *beat) start(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"-signs", b.signs.Name(), "-alone", b.alone.Name(), "-as", "grand" + b.as}
	if b.child == "deaf" {
		args = append(args, "-deaf")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), exe, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}
