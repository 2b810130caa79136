package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/contention"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

const profileHelp = `Read the queues below PREFIX, or all, every --interval for the time of --for,
and write a profile for pprof of where callers waited. Nothing is written to the
service but a session.

Each waiter that a read finds is a sample. Its stack is the lock, the holder and
the waiter. So a flame graph shows the waiting time of each lock, split by the
holder that was waited for, then by waiter. Workers with the same label on a
host are one frame. Where a lock has several holders, a waiter is counted under
the one that asked first.

  delay    the waiting time: each waiter stands for the time between two reads
  waiters  how many waiters the reads found
  labels   lock, kind, host, pid and label, of the waiter

A wait that is shorter than the interval may be missed. After ^C the profile has
what was read until then.`

func (a *app) profileCommand() *cobra.Command {
	length, every := span{d: 30 * time.Second, set: true}, interval(time.Second)
	var file string
	cmd := &cobra.Command{
		SuggestFor: []string{"pprof", "flame", "contention"},
		Use:        "profile [PREFIX] -O FILE",
		Short:      "Write a pprof profile of waiting time by lock and holder",
		Long:       profileHelp,
		Example: `  fairlock profile -O locks.pb.gz
  go tool pprof -http localhost:8080 locks.pb.gz    # View: Flame Graph
  go tool pprof -top -cum locks.pb.gz`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
	}
	cmd.Flags().Var(&length, "for", "read for this `DURATION`")
	cmd.Flags().Var(&every, "interval", "read every `DURATION`")
	cmd.Flags().StringVarP(&file, "output-file", "O", "", "write the profile to `FILE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case file == "":
			return errors.New("want a file for the profile: -O locks.pb.gz")
		case length.d <= 0:
			return errors.New("--for must be above zero")
		}
		t, err := a.conn.Target()
		if err != nil {
			return err
		}
		if dir, err := os.Stat(filepath.Dir(file)); err != nil || !dir.IsDir() { // before the user has waited for the samples
			return exit.Errorf(exit.Usage, "-O %s: there is no such folder", file)
		}
		var p *contention.Profile
		sampled := a.with(cmd, func(ctx context.Context, s *session.Session) error {
			p = contention.New(t.Address.String(), time.Now(), time.Duration(every))
			return sample(ctx, cmd, s, p, firstArg(args), length.d, time.Duration(every))
		})
		if p == nil || p.Reads == 0 { // an empty profile would mean that no caller waited
			return sampled
		}
		var text bytes.Buffer
		err = p.Profile().Write(&text)
		if err == nil {
			err = os.WriteFile(file, text.Bytes(), 0o644)
		}
		if err != nil {
			return exit.Errorf(exit.Failed, "write the profile: %w", err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s found %s of %s: %s\n",
			show.Count(p.Reads, "read"), show.Count(p.Waiters, "waiter"), show.Count(p.Locks(), "lock"), file)
		return sampled
	}
	return cmd
}

// sample reads the queues until the time is over. A read counts for the time since the
// read before it, but for at most twice the interval: what happened while the service
// did not answer is unknown.
func sample(ctx context.Context, cmd *cobra.Command, s *session.Session, p *contention.Profile, prefix string, length, every time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	progress := screen.NewProgress(cmd.ErrOrStderr(), fmt.Sprintf("reading the queues for %s; ^C ends it", length))
	defer progress.Close()
	last := time.Now().Add(-every)
	warned := false
	read := func(ctx context.Context) ([]schema.Queue, error) {
		queues, err := inspect.ReadAll(ctx, s, prefix)
		if _, some := errors.AsType[*inspect.Unreadable](err); some {
			if !warned {
				fmt.Fprintf(progress.Before(cmd.ErrOrStderr()), "fairlock: warning: not in the profile: %v\n", err)
			}
			warned, err = true, nil
		}
		return queues, err
	}
	err := follow(bounded, every, progress.Before(cmd.ErrOrStderr()), read, func(queues []schema.Queue) error {
		now := time.Now()
		p.Add(queues, min(now.Sub(last), 2*every))
		last = now
		return nil
	})
	switch {
	case ctx.Err() == nil && bounded.Err() != nil && p.Reads > 0:
		return nil
	case ctx.Err() == nil && bounded.Err() != nil:
		return exit.Errorf(exit.Unavailable, "no read was answered within %s", length)
	}
	return err
}
