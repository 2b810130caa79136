package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/man"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages into a folder",
		Long: `Write a manual page for each command into DIR, which is created if it does not
exist. To read one: man DIR/fairlock-who.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := man.Write(cmd.Root(), args[0])
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d pages in %s\n", n, args[0])
			return nil
		},
	}
}
