// Package job runs commands under locks, and holds locks without one: what is
// behind fairlock's run, elect and hold.
package job

import (
	"cmp"
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
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Options are what the command line says. The zero value of a field is what was
// not said, where nothing else is written.
type Options struct {
	Name    string
	Command []string // what to run, and its arguments

	Shared, Exclusive bool  // a reader, a writer; neither is a mutex
	Permits, Take     int64 // a semaphore of so many, and how many of them
	Leader            bool  // a candidate of an election
	Value             string

	Nonblock     bool
	Wait         *time.Duration
	ConflictCode int
	SkipOK       bool

	TTL, MaxRun, MinHold time.Duration
	Grace                *time.Duration
	Signal               syscall.Signal
	Warn                 bool   // when lost, only warn
	OnLostExec           string // a program to run then
	Yield                bool   // when asked to, give the lock back
	Once                 string

	ID         string
	Compat     []string // whose variables the command gets too: CompatEtcd, CompatConsul
	StatusFD   int      // 0 is none
	TokenFile  string
	Foreground bool
	Quiet      bool
}

// kind is the lock's, as Grant and FAIRLOCK_KIND name it.
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

// Std are the files of this process.
type Std struct{ In, Out, Err *os.File }

// job is one call of one of the commands.
type job struct {
	Options
	std    Std
	clock  driver.Clock
	target *connect.Target
	path   string // the program to run

	lostPath string // OnLostExec, found

	sigs  *supervise.Signals
	tell  *teller
	stack stack

	s      *session.Session
	window *window
	heeded heeded
}

// prepare does all that can be done before the service is asked: whoever has
// mistyped the command is not to learn that after an hour in the line.
func prepare(conn *connect.Flags, std Std, o Options) (*job, error) {
	if o.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.ID = host + ":" + strconv.Itoa(os.Getpid())
	}
	j := &job{Options: o, std: std, clock: driver.SystemClock(), window: &window{}, heeded: heeded{}}
	var err error
	if len(o.Command) > 0 {
		if j.path, err = lookUp(o.Command[0]); err != nil {
			return nil, err
		}
	}
	if o.OnLostExec != "" {
		if j.lostPath, err = lookUp(o.OnLostExec); err != nil {
			return nil, err
		}
	}
	if err = j.tryTokenFile(); err != nil {
		return nil, err
	}
	if j.target, err = conn.Target(); err != nil {
		return nil, err
	}
	if slices.Contains(o.Compat, CompatEtcd) && j.target.Address.Service != address.Etcd {
		return nil, exit.Errorf(exit.Usage, "--compat-env %s is for etcd, and this is %s", CompatEtcd, j.target.Address)
	}
	if j.stack, err = readStack(conn.Getenv(envStack)); err != nil {
		return nil, err
	}
	if err = j.stack.against(o.Name, where(j.target)); err != nil {
		return nil, err
	}
	if j.tell, err = newTeller(std.Err, o, j.clock); err != nil {
		return nil, err
	}
	for _, w := range j.target.Warnings {
		j.tell.say("warning: %s", w)
	}
	if j.target.Address.Service == address.Memory {
		j.tell.say("warning: mem:// is this process alone: the lock keeps no other process out")
	}
	j.sigs = supervise.Listen()
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
	j.s, err = j.target.Open(ctx, session.Options{TTL: j.TTL, Label: j.label(), Holds: j.stack.names(where(j.target)), Hooks: j.hooks()})
	if err != nil {
		return err
	}
	return j.fitGrace()
}

// label is what others see of us beside host and pid: what we were told to say, or
// else what we run.
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

// defaultID says whether an ID says no more than host and pid, which the service
// is told anyway.
func defaultID(id string) bool {
	host, err := os.Hostname()
	return err == nil && id == host+":"+strconv.Itoa(os.Getpid())
}

// defaultGrace is how long a command has to stop unless it is said, or the
// session is too short for it.
const defaultGrace = 5 * time.Second

// fitGrace settles how long the command has to stop. Half of the time that a
// renewal gives is left to renew in: with less, the command would be stopped
// because of one lost packet.
func (j *job) fitGrace() error {
	most := (j.window.most() / 2).Truncate(100 * time.Millisecond)
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

// close gives the session back, and what we listen to.
func (j *job) close() {
	if j.s != nil {
		_ = j.s.Close() // what is left goes with the TTL
	}
	j.sigs.Close()
	j.tell.close()
}

// interrupted is why a wait ended: by a signal.
type interrupted struct{ number int }

func (i *interrupted) Error() string { return "interrupted" }

// interruptible returns a context that ends with a signal that asks us to leave.
// Stop ends the listening, so that signals go elsewhere from then on, and tells
// whether there was one.
func (j *job) interruptible(ctx context.Context) (_ context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for {
			select {
			case sig := <-j.sigs.C():
				if n, ends := supervise.Ends(sig); ends {
					cancel(&interrupted{n})
					return
				}
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() error {
		close(quit)
		<-done
		defer cancel(nil)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
}

// leave is how a command ends whose wait was interrupted, or failed otherwise.
func (j *job) leave(err error) error {
	var i *interrupted
	switch {
	case errors.As(err, &i):
		j.tell.say("interrupted: left the queue")
		return exit.Silently(supervise.CodeSignal + i.number)
	case errors.Is(err, session.ErrLimitMismatch):
		err = j.otherLimit(err)
	case errors.Is(err, session.ErrNotAcquired) && !errors.Is(err, session.ErrUnavailable):
		err = j.notAcquired(err)
		if j.SkipOK {
			j.tell.say("skipped: %v", err)
			return nil
		}
		return exit.With(cmp.Or(j.ConflictCode, exit.NotAcquired), &told{j.Name + ": " + err.Error(), err})
	}
	return fmt.Errorf("%w", exit.Of(err))
}

// told is an error in words for people; what it was stays in the chain.
type told struct {
	text string
	err  error
}

func (e *told) Error() string { return screen.Printable(e.text) }

func (e *told) Unwrap() error { return e.err }

// otherLimit says what to do where a semaphore has another number of permits than
// --permits says: the number stays at the service when nobody uses it any more.
func (j *job) otherLimit(err error) error {
	var l *rule.LimitError
	if !errors.As(err, &l) {
		return err
	}
	return &told{fmt.Sprintf("%s: its limit is %d, not %d: say --permits %d, or change it for everybody: fairlock resize %s %d",
		j.Name, l.Limit, l.Asked, l.Limit, j.Name, l.Asked), err}
}

// notAcquired says who has the lock, and not how that was found out.
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
	return &told{text, err}
}
