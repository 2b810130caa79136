package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/session"
)

const rootHelp = `Fair, fenced locks on etcd and ZooKeeper: who asks first holds first, and every
hold has a token that a resource can check.

  export FAIRLOCK_ON=etcd://localhost:2379
  fairlock run nightly -- ./backup.sh      wait for the lock, run, give it back
  fairlock run -n nightly -- ./backup.sh   as flock -n: not if somebody has it
  fairlock who nightly                     who holds, who waits

The service is named by a URL:

  etcd://host:2379,host:2379/root?ttl=15s       etcds:// with TLS
  zk://host:2181,host:2181/root?layout=curator  zks:// with TLS

given by --on, or by FAIRLOCK_ON, or by a context of the config file: --context,
or FAIRLOCK_CONTEXT, or the one that the file names. A flag counts more than the
environment, and that more than the file, which is FAIRLOCK_CONFIG or
~/.config/fairlock/config.yaml:

  context: prod
  contexts:
    prod:
      url: etcds://db-1,db-2,db-3/locks
      ca: ca.pem                    # paths are relative to this file
      user: ops
      password-file: secret         # or password, in a file that is yours alone

Users can also be named by FAIRLOCK_USER, and their passwords be in
FAIRLOCK_PASSWORD, or in the file that FAIRLOCK_PASSWORD_FILE names.

Exit codes: 0 done, 1 nothing found, 64 wrong use, 69 service unreachable, 70 an
error in here, 75 lock not acquired, 77 wrong password or no permission, 79 lock
lost, 80 given back because somebody asked, 130 interrupted.`

// The groups that commands are listed in.
const (
	groupHold    = "hold"
	groupLook    = "look"
	groupOperate = "operate"
	groupOther   = "other"
)

// app is what commands share.
type app struct {
	conn     *connect.Flags
	noColour bool
}

// root is the whole command line.
func root() *cobra.Command {
	a := &app{conn: &connect.Flags{Getenv: os.Getenv}}
	cmd := &cobra.Command{
		Use:                "fairlock",
		Short:              "Fair, fenced locks on etcd and ZooKeeper",
		Long:               rootHelp,
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // run makes them, for flags too
	}
	a.conn.Register(cmd)
	cmd.PersistentFlags().BoolVar(&a.noColour, "no-color", false, "write without colours, as with NO_COLOR=1")
	cmd.AddGroup(&cobra.Group{ID: groupHold, Title: "Hold locks:"}, &cobra.Group{ID: groupLook, Title: "See who holds what:"}, &cobra.Group{ID: groupOperate, Title: "Change what others hold:"}, &cobra.Group{ID: groupOther, Title: "More:"})
	cmd.SetHelpCommandGroupID(groupOther)
	cmd.SetCompletionCommandGroupID(groupOther)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			cmd.AddCommand(c)
		}
	}
	add(groupHold, a.runCommand(), a.electCommand(), a.holdCommand())
	add(groupLook, a.lsCommand(), a.whoCommand(), a.watchCommand(), a.topCommand(), a.doctorCommand())
	add(groupOperate, a.askCommand(), a.evictCommand(), a.resizeCommand())
	add(groupOther, a.benchCommand(), demoCommand(), a.versionCommand(), manCommand())
	cmd.AddCommand(guardCommand())
	return cmd
}

// open opens a Session on the service.
func (a *app) open(cmd *cobra.Command, o session.Options) (*session.Session, error) {
	return a.conn.Open(cmd.Context(), cmd.ErrOrStderr(), o)
}

// with runs f with a Session for a command that only looks. What is left of the
// session if it cannot be closed goes by itself, and nobody waits for it.
func (a *app) with(cmd *cobra.Command, f func(ctx context.Context, s *session.Session) error) error {
	s, err := a.open(cmd, session.Options{})
	if err != nil {
		return err
	}
	err = f(cmd.Context(), s)
	_ = s.Close()
	return exit.Of(err)
}

// output is the flag for the format of a command.
func (a *app) output(cmd *cobra.Command, of ...string) *show.Output {
	o := &show.Output{NoColour: &a.noColour}
	o.Register(cmd, of...)
	return o
}
