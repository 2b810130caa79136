package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
)

// root is the whole command line. Commands that work on a service take conn.
func root() *cobra.Command {
	conn := &connect.Flags{Getenv: os.Getenv}
	cmd := &cobra.Command{
		Use:           "fairlock",
		Short:         "Fair, fenced locks on etcd and ZooKeeper",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	conn.Register(cmd)
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
