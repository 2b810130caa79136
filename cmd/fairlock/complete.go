package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/shell"
	"github.com/fairlock/fairlock/session"
)

// completeCommand completes the name of a lock, and after it files: the words of the
// command to run.
func (a *app) completeCommand(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeNames(cmd, args, prefix)
}

// completeWords completes a flag of a command with words. The user can type other
// values.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was defined just before
	}
}

// completeTimeout bounds how long a user who has pressed Tab waits.
const completeTimeout = time.Second

// completeNames completes the first argument with names of locks, which it reads from
// the service that the command would use. If that does not answer, it completes
// nothing; the command itself will report why. A name that a shell would not read as
// itself is left out: other clients choose the names.
func (a *app) completeNames(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, nothing
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
	defer cancel()
	s, err := a.conn.Open(ctx, io.Discard, connect.ForTools(session.Options{}))
	if err != nil {
		return nil, nothing
	}
	names, err := s.Names(ctx, prefix)
	closeWithin(ctx, s)
	if err != nil {
		return nil, nothing
	}
	return slices.DeleteFunc(names, func(name string) bool { return !shell.Literal(name) }), nothing
}

// closeQuickly closes c, for a user who quits, perhaps while the service does not answer.
func closeQuickly(c io.Closer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	closeWithin(ctx, c)
}

// closeWithin closes c, and waits for that until ctx ends. The process ends soon, and what a session
// leaves then ends when the session expires.
func closeWithin(ctx context.Context, c io.Closer) {
	closed := make(chan struct{})
	go func() { // ends with Close, or with this process
		defer close(closed)
		_ = c.Close() // otherwise the session expires
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
