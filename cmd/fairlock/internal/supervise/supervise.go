package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// The exit codes of a Result that are not the command's own. All but CodeLost are those
// of timeout(1) and of shells.
const (
	CodeLost        = 79  // the deadline passed while the command ran, or before
	CodeTooLong     = 124 // the command ran for longer than MaxRun
	CodeCannotStart = 126 // the program exists, and could not be started
	CodeNotFound    = 127
	CodeSignal      = 128 // plus the number of the signal that ended the command
)

// State is the state of a supervised command.
type State string

// The states. Suspect and Paused can change back to Held, Stopping and Lost cannot.
const (
	Held     State = "held"     // the command runs
	Suspect  State = "suspect"  // the command runs, and a renewal is overdue
	Paused   State = "paused"   // the command was stopped at the terminal (^Z), and we stop too
	Stopping State = "stopping" // the command got the signal to stop, or is being killed
	Lost     State = "lost"     // the deadline has passed
)

// Spec is what to run and for how long.
type Spec struct {
	// Path is the path of the program. Args are its arguments, its name first. Env is the
	// whole environment.
	Path string
	Args []string
	Env  []string

	// Stdin, Stdout and Stderr are those of the command. All are required. Open files
	// without the close-on-exec flag are inherited as well.
	Stdin, Stdout, Stderr *os.File

	// Left returns the time to the deadline, 0 when that has passed. It is called often,
	// must return at once, and must be right even after this process was stopped or the
	// machine was suspended. The deadline may move to later.
	Left func() time.Duration

	// Lost is closed when the lease is lost before Left returns 0, so the next one may
	// already have begun. The command then gets the signal to stop, and is killed after
	// the grace, but at most a second later. Nil means that this cannot happen.
	Lost <-chan struct{}

	// Least is the least that Left returns while renewals, which move the deadline, come in
	// time. When three quarters of it are left, the state is Suspect. 0 means no renewals.
	Least time.Duration

	// Grace is how long before the deadline the command gets the signal to stop.
	Grace time.Duration

	// Signal is the signal to stop. 0 means SIGTERM.
	Signal syscall.Signal

	// Leave makes Run return when the command itself has ended, whatever it leaves in its group.
	Leave bool

	// MaxRun is how long the command may run, with all that it leaves in its group. After that it gets the signal to stop, and
	// is killed after the grace. 0 means no limit.
	MaxRun time.Duration

	// KeepOn lets the command run on after the deadline: the loss is only reported.
	KeepOn bool

	// Foreground gives the command the terminal from the start, even if stdin is no
	// terminal. Without it, the command gets the terminal from the start if stdin is a
	// terminal, we are in its foreground, and stdout is no pipe. Otherwise the command
	// gets it when it first uses it. The difference matters to the other processes of a
	// pipeline: they lose the terminal.
	Foreground bool

	// Guard is a command line of this same program, its name first, that calls Guard on
	// its stdin. Empty means no guard. It is for Linux only.
	Guard []string

	// Signals are the signals that this process got since Listen. Required.
	Signals *Signals

	// Report is called with every new state, in Run's goroutine, so it must not wait for a
	// reader. It may be nil.
	Report func(State)

	// Rest is called once if the command has ended and Run waits for the rest of its group.
	// Like Report, it must not wait for a reader, and may be nil.
	Rest func()

	// Refused is called once, with the pid of a process of the group that this process may not
	// signal, because it runs as another user. Nothing stops such a process, also not at the
	// deadline. As Rest.
	Refused func(pid int)
}

// Result is how a command ended.
type Result struct {
	// Code is what to exit with: the command's own status, CodeSignal plus the number of
	// the signal that ended the command, or another code of this package.
	Code int

	// Lost reports whether the lease was lost or its deadline passed before the command
	// ended, or the command was stopped because the deadline was near. With KeepOn the
	// code is still the command's.
	Lost bool

	// TooLong reports whether the command was stopped because of MaxRun.
	TooLong bool

	// Ended reports whether the command was stopped because Run's context had ended. The
	// code is still the command's.
	Ended bool

	// Signal is the last SIGINT, SIGQUIT or SIGTERM that this process got, even if the
	// command had ended by then, or a SIGHUP if it had; 0 if there was none. Hangup reports whether there was a
	// SIGHUP, which may have asked the command to end or to reload. A signal that comes
	// when Run has found the end of the command is left in Signals.
	Signal syscall.Signal
	Hangup bool

	// By is the signal by which this process should end too, 0 for none: SIGHUP, SIGINT, SIGQUIT
	// or SIGTERM ended the command, or a SIGINT or SIGQUIT came after the command had ended. A
	// shell that sees its child end so ends its script or its loop. Code is CodeSignal plus it.
	By syscall.Signal

	// Typed reports whether By was typed when only the command had the terminal. Then the other
	// processes of our group, such as a script that has called us, did not get it.
	Typed bool

	// Err is why the command was not run, nil if it was.
	Err error
}

// Run runs a command and returns when it has ended. It does not start the command if the
// deadline has passed already, unless KeepOn is set. The clock has precedence in the
// result: if Run finds after the deadline that the command has ended, the lease was lost,
// because Run cannot know when the command ended.
//
// Run waits for the rest of the group too, unless Leave is set: what the command has started
// in the background works on under the same lease. If the command got the signal to stop, or
// SIGTERM through us, Run kills the rest after the grace. After the end of the command, every
// signal that ends programs ends the rest so. When ctx ends, the group gets the signal to
// stop, and is killed after the grace.
//
// Run forwards the signals that this process gets to the group. Only one Run at a time
// is allowed in a process: signals, orphans and the terminal belong to the process. Run
// keeps its operating system thread while it runs.
func Run(ctx context.Context, spec Spec) Result {
	if spec.Signal == 0 {
		spec.Signal = syscall.SIGTERM
	}
	if spec.Report == nil {
		spec.Report = func(State) {}
	}
	if spec.Rest == nil {
		spec.Rest = func() {}
	}
	if spec.Refused == nil {
		spec.Refused = func(int) {}
	}
	return run(ctx, spec)
}

// errTooLate is why a command is not started after the deadline.
var errTooLate = errors.New("the deadline passed before the command was started")

// tooLate reports the loss, and returns the result of a command that was not started. The
// process may have been stopped after the grant for longer than the lease, and the next
// one may have begun.
func tooLate(spec Spec) Result {
	spec.Report(Lost)
	return Result{Code: CodeLost, Lost: true, Err: errTooLate}
}
