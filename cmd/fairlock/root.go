package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes, those of sysexits where there is one.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 64
	exitSoftware    = 70
	exitInterrupted = 130
)

// exit is the error of a command that ran: every other error means that it was
// called in the wrong way.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }

func (e *exit) Unwrap() error { return e.err }

// root is the whole command line.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fairlock",
		Short:         "Fair, fenced locks on etcd and ZooKeeper",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(demoCommand(), versionCommand())
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), version())
			return nil
		},
	}
}

// version describes this program as the go command built it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "fairlock, version unknown: built without module support"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	var s strings.Builder
	s.WriteString(fmt.Sprintf("fairlock %s %s", v, info.GoVersion))
	for _, x := range info.Settings {
		switch x.Key {
		case "GOOS", "GOARCH", "vcs.revision":
			s.WriteString(" " + x.Value)
		}
	}
	return s.String()
}
