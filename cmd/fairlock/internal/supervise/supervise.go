package supervise

import (
	"context"
	"os"
	"syscall"
	"time"
)

// The exit codes that a Result has where they are not the command's own: of
// timeout(1) and the shells, but for the first.
const (
	CodeLost        = 79  // the time ran out while the command ran
	CodeTooLong     = 124 // the command ran for longer than MaxRun
	CodeCannotStart = 126 // it is there and could not be started
	CodeNotFound    = 127
	CodeSignal      = 128 // and the number of the signal that ended it
)

// State is what a supervised command is in.
type State string

// The states. From Suspect and Paused there is a way back to Held, from the
// others there is none.
const (
	Held     State = "held"     // it runs
	Suspect  State = "suspect"  // it runs, and a renewal is overdue
	Paused   State = "paused"   // it was stopped at the terminal (^Z), and so will we be
	Stopping State = "stopping" // it was told to stop, or is being killed
	Lost     State = "lost"     // its time is over
)

// Spec says what to run and for how long.
type Spec struct {
	// Path is the program, looked up already; Args are its arguments, its name
	// first. Env is the whole environment.
	Path string
	Args []string
	Env  []string

	// Stdin, Stdout and Stderr are what the command gets. All are required. Other
	// open files that were made to be inherited are, as always.
	Stdin, Stdout, Stderr *os.File

	// Left is how long the command may run, 0 when that is over. It is called
	// often, must return at once, and must be right also after this process was
	// stopped or the machine suspended. It may rise.
	Left func() time.Duration

	// Lost is closed when the time is over before Left says so, and others may go
	// on already: the command is told to stop, and killed after the grace, or after
	// a second if that is less. Nil means that this cannot be.
	Lost <-chan struct{}

	// RenewEvery is how often Left rises when all is well. If that is overdue by
	// half of it, the state is Suspect. 0 means that Left does not rise.
	RenewEvery time.Duration

	// Grace is how long before the end the command is told to stop.
	Grace time.Duration

	// Signal is how it is told. 0 means SIGTERM.
	Signal syscall.Signal

	// MaxRun is how long the command may run in any case. After that it is told to
	// stop, and killed after the grace. 0 means for as long as it likes.
	MaxRun time.Duration

	// KeepOn lets the command run on when its time is over, which is only
	// reported.
	KeepOn bool

	// Foreground gives the command the terminal, even if stdin is none. Without it
	// the command gets the terminal if stdin is one, it is our turn there, and
	// stdout is no pipe; otherwise when it first asks for it. The difference
	// matters to the others of a pipeline: they lose the terminal.
	Foreground bool

	// Guard is a command line of this very program, name first, that calls Guard
	// on its stdin. Empty means that there is no guard. It is for Linux only.
	Guard []string

	// Signals are those that this process got since Listen. Required.
	Signals *Signals

	// Report is told of every new state, in Run's goroutine. It may be nil.
	Report func(State)
}

// Result is how a command ended.
type Result struct {
	// Code is what to exit with: the command's own status, CodeSignal and the
	// number of the signal that ended it, or another code of this package.
	Code int

	// Lost says that its time was over before the command ended, or that it was
	// told to stop because it soon would be. With KeepOn the code is its own
	// nevertheless.
	Lost bool

	// TooLong says that it was told to stop because of MaxRun.
	TooLong bool

	// Ended says that it was told to stop because Run's context had ended. The
	// code is its own nevertheless.
	Ended bool

	// Told is the last of SIGINT, SIGQUIT and SIGTERM that Run took from Signals,
	// also if the command had ended by then; 0 if there was none. One that Run did
	// not take is still there.
	Told syscall.Signal

	// Err is why the command could not be run, nil if it was.
	Err error
}

// Run runs a command and returns when it has ended. Its result is that of the
// clock first: a command that is found to have ended, when its time is over, was
// lost, since nobody can say when it ended.
//
// If the command was told to stop, or got SIGTERM through us, Run sees to the
// rest of the group too: it waits for it, and kills it after the grace or at the
// deadline. What a command leaves that ends by itself, a daemon for example, is
// its own business. When ctx ends, the command is told to stop, and killed after
// the grace.
//
// Signals that reach this process go on to the group. One Run at a time in a
// process: signals, orphans and the terminal belong to the process. It keeps an
// operating system thread for as long as it lasts.
func Run(ctx context.Context, spec Spec) Result {
	if spec.Signal == 0 {
		spec.Signal = syscall.SIGTERM
	}
	if spec.Report == nil {
		spec.Report = func(State) {}
	}
	return run(ctx, spec)
}
