package main

import (
	"context"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/session"
)

const rootHelp = `Fair, fenced locks on etcd, ZooKeeper, PostgreSQL and Redis, granted in order of
request. Every hold has a token that a resource can check.

  export FAIRLOCK_ON=etcd://localhost  # or zk://, postgres://, redis://
  fairlock run nightly -- ./backup.sh  # wait for the lock, run, release`

// connectionHelp is the topic "connection"; the flags follow it.
const connectionHelp = `The service is named by a URL:

  etcd://host:2379,host:2379/root?ttl=15s       etcds:// with TLS
  zk://host:2181,host:2181/root?layout=curator  zks:// with TLS
  postgres://user@host:5432/database?schema=x   TLS, unless host is this machine
  redis://host:6379,host:6379/0?root=x          rediss:// with TLS; valkey(s)://

The first of these that is given counts:

  1. the flag --on, or --context
  2. FAIRLOCK_ON, or FAIRLOCK_CONTEXT
  3. the context that the config file names
  4. ETCDCTL_ENDPOINTS, with ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY,
     ETCDCTL_USER and ETCDCTL_PASSWORD, as etcdctl reads them

What a URL of PostgreSQL leaves out is as for psql: PGUSER, PGPASSWORD,
~/.pgpass, the database that has the name of the user. Parameters of it:

  sslmode=verify-full        or disable, require, verify-ca
  schema=NAME root=NAME      where the tables are, and the locks in them
  listen=host:port           the server itself, behind a pooler; or off
  host=/FOLDER port=NUMBER   a socket

Parameters of a URL of Redis, of which all programs of a root have the same:

  root=NAME                  the locks in the database
  nodes=3 max-ttl=15s        how many servers have the data, the greatest ttl
  master=NAME                host is a sentinel (port 26379) that watches NAME
  sentinel-login=true        the sentinels want the same login

The config file is FAIRLOCK_CONFIG, or fairlock/config.yaml in ~/.config (or
XDG_CONFIG_HOME; ~/Library/Application Support on macOS, %AppData% on Windows):

  context: prod
  contexts:
    prod:
      url: etcds://db-1,db-2,db-3/locks
      ca: ca.pem                    # paths are relative to this file
      user: ops
      password-file: secret         # or password, in a file that only you read

FAIRLOCK_USER can name the user too, and FAIRLOCK_PASSWORD or the file in
FAIRLOCK_PASSWORD_FILE has the password.

Flags of all commands that use a service:

`

const exitHelp = `Commands end with one of these codes:

  0  done                               1  nothing found, or a problem found
 64  wrong usage                       69  the service is unreachable
 70  internal error                    75  the lock was not acquired
 77  wrong password or no permission   79  the lock was lost
 80  released because of a yield request
130  interrupted

"fairlock run" passes on the code of its command, and has these as well:

124  --max-run stopped the command    126  the command cannot be executed
127  there is no such command         128  plus n: signal n ended it`

// The groups of commands in the help.
const (
	groupHold    = "hold"
	groupInspect = "inspect"
	groupOperate = "operate"
	groupOther   = "other"
)

// app is what the commands share.
type app struct {
	conn     *connect.Flags
	noColour bool
}

// root returns the root command, with all others below it.
func root() *cobra.Command {
	a := &app{conn: &connect.Flags{Getenv: os.Getenv}}
	cmd := &cobra.Command{
		Use:                "fairlock",
		Short:              "Fair, fenced locks on etcd, ZooKeeper, PostgreSQL and Redis",
		Long:               rootHelp,
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // hint makes them, for flags too
	}
	a.conn.Register(cmd)
	connection := &cobra.Command{
		Use: "connection", Short: "How to name the service, and log in",
		Long: connectionHelp + strings.TrimRight(cmd.PersistentFlags().FlagUsages(), "\n"),
	}
	codes := &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitHelp}
	cmd.PersistentFlags().BoolVar(&a.noColour, "no-color", false, "write without colours, as with NO_COLOR=1")
	cmd.Version = versionLine(release(debug.ReadBuildInfo()))
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetUsageTemplate(usageTemplate(cmd.UsageTemplate()))
	cmd.AddGroup(&cobra.Group{ID: groupHold, Title: "Hold locks:"}, &cobra.Group{ID: groupInspect, Title: "Inspect locks:"}, &cobra.Group{ID: groupOperate, Title: "Operate:"}, &cobra.Group{ID: groupOther, Title: "More:"})
	cmd.SetHelpCommandGroupID(groupOther)
	cmd.SetCompletionCommandGroupID(groupOther)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			cmd.AddCommand(c)
		}
	}
	add(groupHold, a.runCommand(), a.electCommand(), a.holdCommand())
	add(groupInspect, a.lsCommand(), a.whoCommand(), a.watchCommand(), a.topCommand(), a.uiCommand(), a.profileCommand(), a.doctorCommand())
	add(groupOperate, a.askCommand(), a.evictCommand(), a.resizeCommand(), a.schemaCommand(), a.initCommand())
	bench := a.benchCommand()
	for _, c := range append(cmd.Commands(), bench) {
		c.Annotations = map[string]string{connect.Annotation: "yes"}
	}
	add(groupOther, bench, a.versionCommand(), manCommand())
	cmd.AddCommand(guardCommand(), connection, codes)
	return cmd
}

// Parts of cobra's template for usage.
var (
	globalFlags = regexp.MustCompile(`(?s)\{\{if \.HasAvailableInheritedFlags\}\}.*?\{\{end\}\}`)
	localFlags  = regexp.MustCompile(`(?s)\{\{if \.HasAvailableLocalFlags\}\}.*?\{\{end\}\}`)
)

// usageTemplate returns cobra's template without the flags of the connection, and with
// a line that names the help topic for them.
func usageTemplate(cobras string) string {
	const where = `{{if or (not .HasParent) (index .Annotations "connects")}}

Run "fairlock help connection" for the flags that name the service.{{end}}`
	t := globalFlags.ReplaceAllLiteralString(cobras, where)
	return localFlags.ReplaceAllStringFunc(t, func(flags string) string {
		return "{{if .HasParent}}" + flags + "{{else}}\n\nFlags:\n  -h, --help       show this\n      --version    show the version\n      --no-color   " +
			"write without colours, as with NO_COLOR=1{{end}}"
	})
}

// open opens a Session on the service, also on one that takes no new sessions.
func (a *app) open(cmd *cobra.Command, o session.Options) (*session.Session, error) {
	return a.conn.Open(cmd.Context(), cmd.ErrOrStderr(), connect.ForTools(o))
}

// with runs f with a Session. The session has no entry that delays a waiter, so it may expire
// if the service does not answer its closing.
func (a *app) with(cmd *cobra.Command, f func(ctx context.Context, s *session.Session) error) error {
	s, err := a.open(cmd, session.Options{})
	if err != nil {
		return err
	}
	err = f(cmd.Context(), s)
	closeQuickly(s)
	return exit.Of(err)
}

// during calls f, and shows text on a terminal while f runs.
func during(cmd *cobra.Command, text string, f func() error) error {
	progress := screen.NewProgress(cmd.ErrOrStderr(), text)
	defer progress.Close()
	return f()
}

// output defines the flag for the output format of a command.
func (a *app) output(cmd *cobra.Command, of ...string) *show.Output {
	o := &show.Output{NoColour: &a.noColour}
	o.Register(cmd, of...)
	return o
}
