package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/session"
)

// completeCommand completes the name of a lock, and then files: the words of a
// command that is run under it.
func (a *app) completeCommand(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeNames(cmd, args, prefix)
}

// completeWords completes a flag of a command with words. What is not in them can
// be typed.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was defined just before
	}
}

// completeTimeout is how long somebody who has pressed the tabulator is kept.
const completeTimeout = time.Second

// completeNames completes the first argument with names of locks, asked from the
// service that the command would ask. If that does not answer, there is nothing
// to complete with; the command itself will say why.
func (a *app) completeNames(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, nothing
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	s, err := a.conn.Open(ctx, io.Discard, session.Options{})
	if err != nil {
		return nil, nothing
	}
	names, err := s.Names(ctx, prefix)
	_ = s.Close()
	if err != nil {
		return nil, nothing
	}
	return names, nothing
}
