//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals are the signals that this process got since Listen and has not received from C.
type Signals struct {
	c     chan os.Signal
	stops bool // SIGTSTP is one of them
}

// forwarded returns the signals that Run forwards to the command. These are not: the
// signals that stop a background process which uses the terminal, those that faults
// cause, and SIGURG, which Go's scheduler uses.
func forwarded() []syscall.Signal {
	return []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGIO,
	}
}

// Listen begins to collect signals, which then do not end this process. SIGHUP and SIGINT
// stay ignored, for the command as well, if they were ignored at the start, as under nohup
// or after a shell's &. Go's runtime reports only those two: it handles the others before
// it can be asked. Close ends the collection.
func Listen() *Signals {
	s := &Signals{c: make(chan os.Signal, 64)}
	// A broken pipe at stderr must not end us. The command gets the default.
	all := []os.Signal{syscall.SIGCHLD, syscall.SIGPIPE}
	for _, sig := range forwarded() {
		if !signal.Ignored(sig) {
			all = append(all, sig)
			s.stops = s.stops || sig == syscall.SIGTSTP
		}
	}
	signal.Notify(s.c, all...)
	return s
}

// C returns the channel of the signals.
func (s *Signals) C() <-chan os.Signal { return s.c }

// Close stops the collection. SIGPIPE stays ignored, so that this process can exit with a
// code of its own after it has written an error to a stderr without a reader.
func (s *Signals) Close() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Stop(s.c)
}

// stop stops this process and its group as ^Z would. It returns when the process is
// continued. Without a shell above, which could continue it, stop returns at once.
func (s *Signals) stop() {
	if !s.stops || orphaned() {
		return
	}
	// After Go has handled SIGTSTP, that signal cannot stop this process any more. So the
	// other processes of the group get SIGTSTP, such as a script that has called us, and
	// this process gets SIGSTOP.
	signal.Ignore(syscall.SIGTSTP)
	_ = unix.Kill(0, unix.SIGTSTP)
	stopSelf()
	signal.Notify(s.c, syscall.SIGTSTP)
}

// orphaned reports whether no shell is above this process group in its session. The
// kernel does not let SIGTSTP stop such a group either.
func orphaned() bool {
	ours := unix.Getpgrp()
	for p := os.Getppid(); p > 1; p = parent(p) {
		if g, err := unix.Getpgid(p); err != nil || g == ours {
			continue
		}
		session, err1 := unix.Getsid(p)
		own, err2 := unix.Getsid(0)
		return err1 != nil || err2 != nil || session != own
	}
	return true
}

// MayBeAbove reports whether a process can be an ancestor of this one. Where not all
// ancestors can be seen, every process that lives can be one.
func MayBeAbove(pid int) bool {
	for p := os.Getppid(); ; p = parent(p) {
		switch {
		case p == pid:
			return true
		case p == 1: // the first process, so all were seen
			return false
		case p <= 0:
			return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
		}
	}
}

// Ends returns a signal, and reports whether it asks a program to end.
func Ends(got os.Signal) (sig syscall.Signal, ends bool) {
	switch got {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		sig, ends = got.(syscall.Signal)
	}
	return sig, ends
}
