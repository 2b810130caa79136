package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/job"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/shell"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/once"
	"github.com/fairlock/fairlock/session"
)

const runHelp = `Run a command while holding a lock: a mutex; with -s the read lock, with -x the
write lock; with --permits one of the N permits of a semaphore.

Requests are granted in the order in which the service received them. The
command is dead before the next holder can start: when renewals are not
acknowledged, its whole process group gets SIGTERM --grace before the session's
deadline, and SIGKILL at the deadline. A machine that is suspended cannot do
that. So check the token where it matters: a resource that refuses every token
lower than the highest it has seen is safe.

The lock is held until all of the process group has ended, as with flock: also
what the command has started in the background. --close (-o) releases it when
the command itself has ended. A process that has left the group (setsid) is
neither waited for nor stopped. A process that runs as another user (sudo) is
waited for, and nothing can stop it: fairlock warns. Use "sudo fairlock run",
not "fairlock run ... sudo".

--grace is at most half of the time that a healthy session has left before a
renewal, so that a late one stops no command: with a --ttl of 15s 4.4s on etcd,
5.8s on one ZooKeeper server and 2.9s on an ensemble. A longer --ttl allows
more.

The environment of the command has FAIRLOCK_NAME, FAIRLOCK_TOKEN, FAIRLOCK_KIND
(mutex, read, write, semaphore, leader), FAIRLOCK_SLOT (of a semaphore, from 0),
FAIRLOCK_KEY (the entry, for conditional writes), FAIRLOCK_ID, FAIRLOCK_BACKEND
and FAIRLOCK_TTL_MS.

Exit codes: the command's own; 128+n if signal n ended the command, or ended
fairlock while it waited; 64 wrong usage, 69 service unreachable, 75 not
acquired (-n, -w), 77 no permission, 79 the lock was lost and the command is
dead (not with --on-lost warn), 80 the command was stopped because of a yield
request (fairlock ask, --on-ask stop), 124 --max-run, 126 and 127 as in a shell.
If the signal is INT, QUIT, TERM or HUP, fairlock itself ends by it, which a
shell shows as 128+n too. So ^C also ends the script or the loop that has called
fairlock, unless the command handles ^C and goes on.

^Z stops the command and fairlock, and the command is killed at the deadline.
While fairlock waits, ^Z does nothing. A SIGHUP or SIGINT that was ignored at
the start, as under nohup, stays ignored; other signals do not.`

const runExamples = `  fairlock run jobs/nightly -- ./backup.sh
  fairlock run -n jobs/nightly -- ./backup.sh     not if it is held
  fairlock run -w 10m --max-run 1h deploy -- make deploy
  fairlock run --permits 4 gpu -- ./train.sh
  fairlock run --once "$(date +%FT%H:%M)" cron/report -- ./report.sh`

// jobFlags are the flags of run, elect and hold.
type jobFlags struct {
	job.Options

	wait, grace, ttl, maxRun, minHold, onceFor span
	signal                                     string
	onLost, onAsk                              choice
	compat                                     choices
	observe                                    bool
}

func (a *app) runCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		SuggestFor: []string{"lock", "flock", "exec", "with"},
		Use:        "run [flags] NAME -- COMMAND [ARG...]", Short: "Run a command while holding a lock",
		Long: runHelp, Example: runExamples,
		ValidArgsFunction: a.completeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(cmd, args, true); err != nil {
				return err
			}
			return job.Run(cmd.Context(), a.conn, std(), f.Options)
		},
	}
	f.locks(cmd)
	f.waits(cmd)
	f.child(cmd)
	f.shared(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&f.Close, "close", "o", false, closeUsage)
	fs.BoolVar(&f.SkipOK, "skip-ok", false, "exit 0 if the lock is not acquired")
	fs.Var(&f.minHold, "min-hold", "hold the lock for at least this `DURATION`, so\nthat a host whose clock is late finds it held;\na signal ends that too")
	fs.StringVar(&f.Once, "once", "", "do nothing if done for this `KEY` before; a\nrun that failed, or in which fairlock got a\nsignal that ends programs, does not count")
	fs.Var(&f.onceFor, "once-for", "remember the key for at least this `DURATION`,\n15m if not given; the last 1000 keys of a lock\nare remembered longer. If there is no room for\nanother key, the command is not run")
	cmd.MarkFlagsMutuallyExclusive("once", "shared") // several holders can run at the same time
	cmd.MarkFlagsMutuallyExclusive("once", "permits")
	return cmd
}

const closeUsage = "release the lock at the end of COMMAND itself,\nwhatever it leaves in its process group"

const electHelp = `Run a command while leading. When the command ends or the leadership is lost,
campaign again, until a signal ends fairlock; the command gets the signal too.
The command is dead before the next leader's can start, and the leadership lasts
until all of its process group has ended, as with run. With --on-ask stop the
leader yields once to each yield request (fairlock ask).

With --generation a roll-out moves the leadership once, if each new process is
started before an old one is stopped: a candidate that would lead next, behind
an older leader, joins the queue again behind a newer one. A signal hands over.

With --observe no command runs. Each change of the leader is printed as a line
with the token and the value, or "-" while there is no leader; with -o jsonl as
an object.`

func (a *app) electCommand() *cobra.Command {
	var f jobFlags
	var out *show.Output
	cmd := &cobra.Command{
		SuggestFor: []string{"leader", "lead", "campaign", "election"},
		Use:        "elect [flags] NAME -- COMMAND [ARG...]", Short: "Run a command while leading; campaign again and again",
		Long: electHelp,
		Example: `  fairlock elect scheduler -- ./scheduler --listen :7000
  fairlock elect --observe scheduler`,
		ValidArgsFunction: a.completeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(cmd, args, !f.observe); err != nil {
				return err
			}
			switch {
			case f.observe:
				return job.Observe(cmd.Context(), a.conn, std(), f.Options, out.Objects())
			case cmd.Flags().Changed(show.FlagName):
				return errors.New("-o is for --observe: the command writes what it likes")
			}
			return job.Elect(cmd.Context(), a.conn, std(), f.Options)
		},
	}
	f.child(cmd)
	f.shared(cmd)
	out = a.output(cmd, "text", show.Lines)
	fs := cmd.Flags()
	fs.BoolVar(&f.Close, "close", false, closeUsage)
	fs.BoolVar(&f.observe, "observe", false, "print the leaders instead")
	fs.Int64Var(&f.Generation, "generation", 0, "the `NUMBER` of the roll-out, higher each time: an\nolder candidate lets a newer one lead before it")
	fs.StringVar(&f.Value, "value", "", "what observers see of the leader (default the ID)")
	return cmd
}

const holdHelp = `Hold a lock without a command, until a signal comes, or until stdin ends if it
is a pipe or a socket; ^Z does nothing. Any other stdin, such as the /dev/null
of a service, a container or a job in the background, ends nothing. The grant is
printed as a line of JSON. The exit code is 0 if the lock was released and 79 if
it was lost; the others are those of run.`

func (a *app) holdCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use: "hold [flags] NAME", Short: "Hold a lock until a signal, or the end of stdin",
		Long:              holdHelp,
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.parse(cmd, args, false); err != nil {
				return err
			}
			return job.Hold(cmd.Context(), a.conn, std(), f.Options)
		},
	}
	f.locks(cmd)
	f.waits(cmd)
	f.shared(cmd)
	return cmd
}

// guardCommand is the guard of a supervisor; only supervisors start it.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "guard", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return exit.With(exit.Software, supervise.Guard(os.Stdin))
		},
	}
}

// locks defines the flags for the kind of lock.
func (f *jobFlags) locks(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVarP(&f.Shared, "shared", "s", false, "take the read lock")
	fs.BoolVarP(&f.Exclusive, "exclusive", "x", false, "take the write lock")
	fs.Int64Var(&f.Permits, "permits", 0, "a semaphore of `N` permits")
	fs.Int64Var(&f.Take, "take", 1, "acquire `K` of them")
	cmd.MarkFlagsMutuallyExclusive("shared", "exclusive", "permits")
}

// waits defines the flags for how long to wait.
func (f *jobFlags) waits(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVarP(&f.Nonblock, "nonblock", "n", false, "do not wait: exit 75 if the lock is held")
	fs.VarP(&f.wait, "wait", "w", "wait for at most this `DURATION`; a bare\nnumber is seconds (default for ever)")
	fs.Var(&f.wait, "timeout", "the same as --wait")
	fs.BoolVar(&f.Nonblock, "nb", false, "the same as --nonblock") // both are flock's
	f.ConflictCode = new(int)
	fs.IntVarP(f.ConflictCode, "conflict-exit-code", "E", exit.NotAcquired, "exit `CODE` if it is not acquired")
	for _, old := range []string{"timeout", "nb"} {
		_ = fs.MarkHidden(old) // it is defined above
	}
	cmd.MarkFlagsMutuallyExclusive("nonblock", "nb", "wait", "timeout")
}

// child defines the flags for the command that runs.
func (f *jobFlags) child(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.onLost = choice{value: "kill", of: []string{"kill", "warn"}}
	fs.StringVar(&f.signal, "signal", "TERM", "stop the command with `SIGNAL`")
	fs.VarP(&f.grace, "grace", "k", "kill the command this `DURATION` later\n(default 5s, or less if the TTL allows less)")
	fs.Var(&f.onLost, "on-lost", "on loss, `ACTION`: "+f.onLost.words())
	fs.StringVar(&f.OnLostExec, "on-lost-exec", "", "on loss also run the program `FILE`, for at\nmost 30s; FAIRLOCK_LOST has the reason")
	f.compat.of = []string{job.CompatEtcd, job.CompatConsul}
	fs.Var(&f.compat, "compat-env", "also set the variables that `TOOLS` set: etcd\n(etcdctl lock), consul (consul lock)")
	fs.Var(&f.maxRun, "max-run", "stop the command after this `DURATION`, code\n124")
	fs.BoolVar(&f.Foreground, "foreground", false, "give the terminal to the command in any case")
	completeWords(cmd, "signal", slices.Sorted(maps.Keys(signals())))
	completeWords(cmd, "on-lost", f.onLost.of)
	completeWords(cmd, "compat-env", f.compat.of)
}

// shared defines the flags of run, elect and hold.
func (f *jobFlags) shared(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.Var(&f.ttl, "ttl", "how long a crashed holder keeps the lock, a\n`DURATION` (default 15s)")
	f.onAsk = choice{value: "warn", of: []string{"warn", "stop"}}
	fs.Var(&f.onAsk, "on-ask", "`ACTION` on a yield request: warn, or stop\nwith code 80")
	completeWords(cmd, "on-ask", f.onAsk.of)
	fs.StringVar(&f.ID, "id", "", "what others see of this process (default host\nand pid); --label is the same")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "label" { // as in a URL and in Go
			name = "id"
		}
		return pflag.NormalizedName(name)
	})
	fs.IntVar(&f.StatusFD, "status-fd", 0, "write states to file descriptor `N`, as JSON")
	fs.StringVar(&f.TokenFile, "token-file", "", "also write the token to `FILE`")
	fs.BoolVarP(&f.Quiet, "quiet", "q", false, "print nothing while waiting")
	fs.SetInterspersed(false) // flags after NAME are the command's
}

// parse reads the arguments, and checks what depends on several flags.
func (f *jobFlags) parse(cmd *cobra.Command, args []string, command bool) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return errors.New("want the NAME of the lock")
	case command && len(args) > 1 && dash < 0 && args[1] != "--":
		return noDash(cmd, args[0], args[1:])
	}
	f.Name = args[0]
	rest := args[1:]
	if dash < 0 && len(rest) > 0 && rest[0] == "--" { // flags end at NAME, so this is an argument
		rest = rest[1:]
	}
	switch {
	case command && len(rest) == 0:
		return fmt.Errorf(`want a command: %s %s -- COMMAND`, cmd.CommandPath(), shell.Argument(f.Name))
	case !command && len(rest) > 0 && strings.HasPrefix(rest[0], "-"):
		return fmt.Errorf("flags stand before the name: %s %s %s", cmd.CommandPath(), shell.Quote(rest...), shell.Argument(f.Name))
	case !command && len(rest) > 0:
		return fmt.Errorf("unexpected %q after the name", rest[0])
	}
	f.Command = rest
	fs := cmd.Flags()
	switch {
	case f.Generation < 0:
		return errors.New("--generation must be at least 0")
	case fs.Changed("take") && f.Permits == 0:
		return errors.New("--take is for --permits")
	case fs.Changed("permits") && f.Permits < 1:
		return errors.New("--permits must be at least 1")
	case fs.Changed("conflict-exit-code") && (*f.ConflictCode < 0 || *f.ConflictCode > 255):
		return errors.New("--conflict-exit-code must be from 0 to 255")
	case fs.Changed("grace") && fs.Changed("ttl") && f.grace.d >= f.ttl.d:
		return fmt.Errorf("--grace %s must be shorter than --ttl %s: the command must be dead before the lock can be lost", f.grace.d, f.ttl.d)
	case len(f.ID) > session.MaxLabel || !utf8.ValidString(f.ID):
		return fmt.Errorf("--id takes at most %d bytes of UTF-8", session.MaxLabel)
	case fs.Changed("once-for") && !fs.Changed("once"):
		return errors.New("--once-for is for --once")
	case fs.Changed("once"):
		if err := job.CheckOnce(f.Once); err != nil {
			return err
		}
	}
	f.TTL, f.MaxRun, f.MinHold, f.OnceFor = f.ttl.d, f.maxRun.d, f.minHold.d, f.onceFor.d
	if !fs.Changed("once-for") {
		f.OnceFor = once.DefaultFor
	}
	if fs.Changed("wait") || fs.Changed("timeout") {
		f.Wait = &f.wait.d
	}
	if fs.Changed("grace") {
		f.Grace = &f.grace.d
	}
	f.Compat = f.compat.values
	f.Warn, f.Yield = f.onLost.value == "warn", f.onAsk.value == "stop"
	if fs.Lookup("signal") == nil {
		return nil
	}
	var err error
	f.Signal, err = signalOf(f.signal)
	return err
}

// noDash is the error for a command without "--" before it. It shows what to type.
func noDash(cmd *cobra.Command, name string, rest []string) error {
	typed, name := cmd.CommandPath(), shell.Argument(name)
	dash := slices.Index(rest, "--")
	switch {
	case rest[0] == "-c" && len(rest) > 1: // as with flock
		return fmt.Errorf(`want "--" before the command: %s %s -- sh %s`, typed, name, shell.Quote(rest...))
	case strings.HasPrefix(rest[0], "-") && dash > 0:
		return fmt.Errorf(`flags stand before the name: %s %s %s %s`, typed, shell.Quote(rest[:dash]...), name, shell.Quote(rest[dash:]...))
	case strings.HasPrefix(rest[0], "-"):
		return fmt.Errorf(`flags stand before the name: %s %s %s`, typed, shell.Quote(rest[0]), name)
	case dash > 0:
		return fmt.Errorf(`want one NAME before "--", and %q is too much`, rest[0])
	}
	return fmt.Errorf(`want "--" before the command: %s %s -- %s`, typed, name, shell.Quote(rest...))
}

// std returns the standard files of this process.
func std() job.Std { return job.Std{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// signalOf reads the name or the number of a signal.
func signalOf(s string) (syscall.Signal, error) {
	name := strings.ToUpper(strings.TrimPrefix(strings.ToUpper(s), "SIG"))
	if sig, ok := signals()[name]; ok {
		return sig, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	return 0, fmt.Errorf("--signal %s: want a name such as TERM, or a number", s)
}

// span is a duration. A bare number is seconds, as with flock and timeout.
type span struct {
	d   time.Duration
	set bool
}

// String implements pflag.Value.
func (s *span) String() string {
	if !s.set {
		return ""
	}
	return s.d.String()
}

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	switch {
	case err != nil:
		return errors.New("want a time such as 10, 1.5 or 5m")
	case d < 0:
		return errors.New("it must not be negative")
	}
	s.d, s.set = d, true
	return nil
}

// Type implements pflag.Value.
func (s *span) Type() string { return "time" }
