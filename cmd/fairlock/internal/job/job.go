// Package job implements fairlock run, elect and hold: it runs commands while it holds a
// lock, or holds a lock without a command.
package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/shell"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Options are the options of the command line. The zero value of a field means that the
// option was not given, unless its comment states otherwise.
type Options struct {
	Name    string
	Command []string // what to run, and its arguments

	Shared, Exclusive bool  // a reader, a writer; a mutex if neither is set
	Permits, Take     int64 // a semaphore of Permits, of which it acquires Take
	Leader            bool  // a candidate of an election
	Value             string
	Generation        int64 // of its roll-out, 0 is none

	Nonblock     bool
	Wait         *time.Duration
	ConflictCode *int // nil is exit.NotAcquired
	SkipOK       bool

	TTL, MaxRun, MinHold time.Duration
	Grace                *time.Duration
	Signal               syscall.Signal
	Warn                 bool   // on a loss, only warn
	OnLostExec           string // a program to run on a loss
	Yield                bool   // release the lock on a yield request
	Once                 string
	OnceFor              time.Duration // how long the key is remembered at least

	ID         string
	Compat     []string // whose variables the command gets too: CompatEtcd, CompatConsul
	StatusFD   int      // 0 is none
	TokenFile  string
	Foreground bool
	Close      bool // release the lock when the command has ended, although its group lives
	Quiet      bool
}

// kind returns the kind of the lock, as Grant and FAIRLOCK_KIND name it.
func (o *Options) kind() string {
	switch {
	case o.Leader:
		return "leader"
	case o.Permits > 0:
		return "semaphore"
	case o.Shared:
		return "read"
	case o.Exclusive:
		return "write"
	}
	return "mutex"
}

// Std are the standard files of this process.
type Std struct{ In, Out, Err *os.File }

// job is one call of run, elect or hold.
type job struct {
	Options
	std    Std
	clock  driver.Clock
	target *connect.Target
	path   string // the program to run

	lostPath string // the path of OnLostExec

	sigs  *supervise.Signals
	rep   *reporter
	stack stack

	s         *session.Session
	least     time.Duration // the least time to the deadline while the service answers
	yieldedTo yieldedTo
}

// prepare does everything that needs no service. So a user who has mistyped the command
// gets the error at once, not after an hour in the queue.
func prepare(conn *connect.Flags, std Std, o Options) (*job, error) {
	if o.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.ID = host + ":" + strconv.Itoa(os.Getpid())
	}
	j := &job{Options: o, std: std, clock: driver.SystemClock(), yieldedTo: yieldedTo{}}
	var err error
	if len(o.Command) > 0 {
		j.path, err = lookUp(o.Command[0])
		if err != nil {
			return nil, err
		}
	}
	if o.OnLostExec != "" {
		j.lostPath, err = lookUp(o.OnLostExec)
		if err != nil {
			return nil, err
		}
	}
	err = j.checkTokenFile()
	if err != nil {
		return nil, err
	}
	j.target, err = conn.Target()
	if err != nil {
		return nil, err
	}
	if slices.Contains(o.Compat, CompatEtcd) && j.target.Address.Service != address.Etcd {
		return nil, exit.Errorf(exit.Usage, "--compat-env %s is for etcd, and this is %s", CompatEtcd, j.target.Address)
	}
	j.stack, err = readStack(conn.Getenv(envStack))
	if err != nil {
		return nil, err
	}
	err = j.stack.check(o.Name, serviceID(j.target))
	if err != nil {
		return nil, err
	}
	j.rep, err = newReporter(std.Err, o, j.clock)
	if err != nil {
		return nil, err
	}
	j.sigs = supervise.Listen() // until here a signal ends us, also while a file blocks
	for _, w := range j.target.Warnings {
		j.rep.info("warning: %s", w)
	}
	if j.target.Address.Service == address.Memory {
		j.rep.info("warning: mem:// is this process alone: the lock keeps no other process out")
	}
	return j, nil
}

// lookUp finds a program as a shell does.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", exit.Errorf(exit.NotFound, "%s: command not found", name)
	}
	return "", exit.Errorf(exit.NotExecutable, "%s: cannot be run: %w", name, errors.Unwrap(err))
}

// open opens the session, once.
func (j *job) open(ctx context.Context) error {
	if j.s != nil {
		return nil
	}
	var err error
	j.s, err = j.target.Open(ctx, session.Options{TTL: j.TTL, Label: j.label(), Holds: j.stack.names(serviceID(j.target)), Hooks: j.hooks()})
	if err != nil {
		return err
	}
	t, err := session.Engine(door.Key{}).Of(j.s).Live(ctx)
	if err != nil {
		return err
	}
	j.least = t.Least()
	return j.fitGrace()
}

// label returns what other clients see of us in addition to host and pid: --id, or else
// the name of the command.
func (j *job) label() string {
	switch {
	case !defaultID(j.ID):
		return j.ID
	case len(j.Command) == 0:
		return ""
	}
	base := filepath.Base(j.Command[0])
	return strings.ToValidUTF8(base[:min(len(base), session.MaxLabel)], "")
}

// defaultID reports whether id contains only host and pid, which the service gets anyway.
func defaultID(id string) bool {
	host, err := os.Hostname()
	return err == nil && id == host+":"+strconv.Itoa(os.Getpid())
}

// defaultGrace is how long a command has to stop without --grace, unless the session is
// too short for it.
const defaultGrace = 5 * time.Second

// fitGrace sets how long the command has to stop: at most half of the time that is left to
// the deadline when a renewal comes. The other half is for a renewal that is late. With less
// time for it, one lost packet would stop the command.
func (j *job) fitGrace() error {
	most := (j.least / 2).Truncate(100 * time.Millisecond)
	if j.Grace == nil {
		g := min(defaultGrace, most)
		j.Grace = &g
		return nil
	}
	if *j.Grace > most {
		return exit.Errorf(exit.Usage, "--grace %s is too long for a session of %s, which needs time to be renewed: want at most %s, or a longer --ttl",
			*j.Grace, j.s.Options().TTL, most)
	}
	return nil
}

// close closes the session, and ends the collection of signals.
func (j *job) close() {
	if j.s != nil {
		_ = j.s.Close() // otherwise the session expires after its TTL
	}
	j.rep.close()
	j.sigs.Close() // last: from then on a signal ends us
}

// interrupted is the error of a wait that a signal ended.
type interrupted struct{ signal syscall.Signal }

func (i *interrupted) Error() string { return "interrupted" }

// interruptible returns a context that ends with a signal that ends this process, and reaps
// orphans meanwhile. After
// stop, signals are no longer received here. Stop returns why the context had ended, nil
// if it had not; a signal that came before stop counts.
func (j *job) interruptible(ctx context.Context) (_ context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopReaping := supervise.ReapOrphans()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for {
			select {
			case sig := <-j.sigs.C():
				s, ends := supervise.Ends(sig)
				if ends {
					cancel(&interrupted{s})
					return
				}
			case <-quit:
				if len(j.sigs.C()) == 0 {
					return
				}
			}
		}
	}()
	return ctx, func() error {
		close(quit)
		<-done
		stopReaping()
		defer cancel(nil)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
}

// failed returns the error, with its exit code, for a lock that was not acquired. It
// reports an interrupt and --skip-ok.
func (j *job) failed(err error) error {
	var i *interrupted
	switch {
	case errors.As(err, &i):
		j.rep.info("interrupted: left the queue")
		return exit.BySignal(i.signal, false)
	case errors.Is(err, session.ErrLimitMismatch):
		err = j.limitMismatch(err)
	case errors.Is(err, session.ErrNotAcquired) && !errors.Is(err, session.ErrUnavailable):
		err = j.notAcquired(err)
		if j.SkipOK {
			j.rep.info("skipped: %v", err)
			return nil
		}
		code := exit.NotAcquired
		if j.ConflictCode != nil {
			code = *j.ConflictCode
		}
		return exit.With(code, &reworded{j.Name + ": " + err.Error(), err})
	}
	return fmt.Errorf("%w", exit.Of(err))
}

// reworded is an error with another text; the original error stays in the chain.
type reworded struct {
	text string
	err  error
}

func (e *reworded) Error() string { return screen.Printable(e.text) }

func (e *reworded) Unwrap() error { return e.err }

// limitMismatch returns what to do if the semaphore has another limit than --permits. The
// limit stays at the service when the semaphore has no users.
func (j *job) limitMismatch(err error) error {
	var l *rule.LimitError
	if !errors.As(err, &l) {
		return err
	}
	return &reworded{fmt.Sprintf("%s: its limit is %d, not %d: use --permits %d, or change it for all users: fairlock resize %s %d",
		j.Name, l.Limit, l.Asked, l.Limit, shell.Argument(j.Name), l.Asked), err}
}

// notAcquired returns an error that names the holder, without the chain of errors below.
func (j *job) notAcquired(err error) error {
	var n *session.NotAcquiredError
	if !errors.As(err, &n) {
		return err
	}
	plain := *n
	plain.Err = nil
	text := plain.Error()
	if n.Err != nil && j.Wait != nil {
		text += fmt.Sprintf(", waited for %s", *j.Wait)
	}
	return &reworded{text, err}
}
