//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals are the signals that a process has got since Listen and has not looked
// at.
type Signals struct {
	c     chan os.Signal
	stops bool // SIGTSTP is one of them
}

// forwarded are the signals that go on to the command. Not those that stop a
// process that reads the terminal out of turn, those that faults cause, and
// SIGURG, which Go's scheduler uses.
func forwarded() []syscall.Signal {
	return []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGIO,
	}
}

// Listen begins to collect signals, instead of their ending this process. Those
// that were ignored when it began, as nohup and a shell's & do, stay so, for the
// command as well. It ends with Close.
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

// C brings the signals.
func (s *Signals) C() <-chan os.Signal { return s.c }

// Close stops to collect.
func (s *Signals) Close() { signal.Stop(s.c) }

// stop stops this process and its group as ^Z would. It returns when it was
// continued, or at once where nobody could do that: without a shell above.
func (s *Signals) stop() {
	if !s.stops || orphaned() {
		return
	}
	// Once Go has handled SIGTSTP it cannot be made to stop a process any more. So
	// the others of the group get it, a script that has called us for example, and
	// this process gets SIGSTOP.
	signal.Ignore(syscall.SIGTSTP)
	_ = unix.Kill(0, unix.SIGTSTP)
	stopSelf()
	signal.Notify(s.c, syscall.SIGTSTP)
}

// orphaned says that no shell is above this process group in its session, which
// is when the kernel does not let SIGTSTP stop it either.
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

// Ends says whether a signal asks a program that does nothing else to leave, and
// its number.
func Ends(sig os.Signal) (number int, ends bool) {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		s, ok := sig.(syscall.Signal)
		return int(s), ok
	}
	return 0, false
}
