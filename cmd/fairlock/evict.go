package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

const evictHelp = `Delete an entry from a lock's queue, whatever its owner. Send a yield request
first: fairlock ask.

To evict a holder breaks the lock. The next waiter holds at once, and the
evicted program works on until it learns of it: under fairlock run its command
gets SIGTERM, and SIGKILL after --grace or a second. Until then two holders may
work, and only a resource that refuses tokens lower than the highest it has seen
is safe. A waiter that is evicted joins again at the end of the queue. If it
holds by the time of your answer, evict leaves it alone, with code 1.

On a terminal evict names the entry and asks whether you mean it. Elsewhere it
needs --yes. Scripts do best with --token: no two entries ever have the same.

Exit codes: 0 evicted, 1 there is no such entry any more, or the answer was no;
69 the service refuses it, and the entry stays; 77 no permission.`

// evictFlags are the flags of evict.
type evictFlags struct {
	token  int64
	holder bool
	waiter int
	yes    bool
}

func (a *app) evictCommand() *cobra.Command {
	var k evictFlags
	cmd := &cobra.Command{
		SuggestFor: []string{"unlock", "release", "kill", "break", "steal", "rm", "delete"},
		Use:        "evict NAME (--token N | --holder | --waiter PLACE)",
		Short:      "Delete an entry from a queue by force",
		Long:       evictHelp,
		Example: `  fairlock who deploy
  fairlock evict --token 815 deploy`,
		Args:              aName,
		ValidArgsFunction: a.completeNames,
	}
	fs := cmd.Flags()
	fs.Int64Var(&k.token, "token", 0, "the entry with token `N`, as who shows it")
	fs.BoolVar(&k.holder, "holder", false, "the holder, if there is one only")
	fs.IntVar(&k.waiter, "waiter", 0, "the waiter in this `PLACE`, as who shows it")
	fs.BoolVarP(&k.yes, "yes", "y", false, "do not ask for confirmation")
	cmd.MarkFlagsMutuallyExclusive("token", "holder", "waiter")
	out := a.output(cmd, "text", show.JSON, show.YAML, show.Lines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k.token == 0 && !k.holder && k.waiter == 0 {
			return errors.New("want --holder, --waiter PLACE or --token N, as fairlock who shows them")
		}
		if !k.yes && !canConfirm(cmd) {
			return errors.New("stdin is no terminal, where evict could ask for confirmation: want --yes")
		}
		return a.with(cmd, func(ctx context.Context, s *session.Session) error {
			return a.evict(ctx, cmd, s, args[0], k, out)
		})
	}
	return cmd
}

// evict finds the entry, warns, asks for confirmation, and deletes the entry.
func (a *app) evict(ctx context.Context, cmd *cobra.Command, s *session.Session, name string, k evictFlags, out *show.Output) error {
	var queue schema.Queue
	var entries []session.Entry
	err := during(cmd, "reading the queue", func() (err error) {
		queue, entries, err = inspect.Both(ctx, s, name)
		if err == nil && len(entries) == 0 {
			err = a.emptyQueue(ctx, s, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	i, err := k.find(queue)
	if err != nil {
		return err
	}
	stderr, e := cmd.ErrOrStderr(), queue.Entries[i]
	if e.State == schema.Holder {
		fmt.Fprintf(stderr, "fairlock: warning: %s\n", fenceWarning)
	}
	if !k.yes {
		err = confirm(ctx, cmd, name, e)
		if err == nil {
			err = stillWaits(ctx, cmd, s, name, e)
		}
		if err != nil {
			return err
		}
	}
	err = during(cmd, "evicting "+e.Who(), func() error {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return s.Evict(ctx, entries[i])
	})
	switch {
	case errors.Is(err, session.ErrGone):
		return exit.Errorf(exit.Failed, "%s has gone from %q by itself: no entry was evicted", screen.Printable(e.Who()), name)
	case errors.Is(err, session.ErrDenied):
		return exit.Errorf(exit.Denied, "no entry was evicted: %w", err)
	case errors.Is(err, session.ErrRefused):
		return exit.Errorf(exit.Unavailable, "no entry was evicted: %w", err)
	case err != nil:
		return &unknownError{fmt.Sprintf("it is not known whether %s was evicted: see fairlock who, or repeat it with --token %d", screen.Printable(e.Who()), e.Token), err}
	}
	done := schema.NewEvent(schema.Evicted, name, time.Now(), e)
	if out.Objects() {
		return out.One(cmd.OutOrStdout(), done)
	}
	return printEvent(cmd.OutOrStdout(), out.Paint(cmd.OutOrStdout()), false, done)
}

const fenceWarning = "this breaks the lock: the next waiter holds at once, while this holder may work on for a moment; " +
	"only a resource that checks tokens is safe"

// find returns the index of the entry that the flags select.
func (k evictFlags) find(queue schema.Queue) (int, error) {
	var found []int
	for i, e := range queue.Entries {
		if k.token != 0 && e.Token == k.token || k.holder && e.State == schema.Holder || k.waiter != 0 && e.Place == k.waiter {
			found = append(found, i)
		}
	}
	switch {
	case len(found) > 1:
		tokens := make([]string, len(found))
		for i, f := range found {
			tokens[i] = strconv.FormatInt(queue.Entries[f].Token, 10)
		}
		return 0, exit.Errorf(exit.Usage, "%d holders of %q: select one with --token %s", len(found), queue.Name, strings.Join(tokens, " or "))
	case len(found) == 0:
		return 0, k.none(queue)
	case k.waiter != 0 && queue.Entries[found[0]].State == schema.Holder:
		return 0, exit.Errorf(exit.Usage, "place %d of %q is a holder's, and no waiter's: to evict that, use --token %d",
			k.waiter, queue.Name, queue.Entries[found[0]].Token)
	}
	return found[0], nil
}

// none is the error if no entry matches the flags.
func (k evictFlags) none(queue schema.Queue) error {
	switch {
	case k.token != 0:
		return exit.Errorf(exit.NoSuchName, "no entry of %q has token %d: it has gone, or never existed", queue.Name, k.token)
	case k.holder:
		return exit.Errorf(exit.NoSuchName, "%q has no holder", queue.Name)
	}
	return exit.Errorf(exit.NoSuchName, "there is no place %d in the queue of %q, which has %d", k.waiter, queue.Name, len(queue.Entries))
}

// canConfirm reports whether stdin is a terminal, where a user can confirm.
func canConfirm(cmd *cobra.Command) bool {
	f, ok := cmd.InOrStdin().(*os.File)
	return ok && screen.IsTerminal(f)
}

// confirm asks the user to confirm. Every answer but "y" and "yes" is a no.
func confirm(ctx context.Context, cmd *cobra.Command, name string, e schema.Entry) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "Evict %s, which %s? [y/N] ", screen.Printable(e.Who()), show.Does(name, e))
	answer := make(chan string, 1)
	go func() { // ends when the user has typed a line, or with this process
		text, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // the end of stdin is a no
		answer <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case <-ctx.Done():
		_, _ = io.WriteString(cmd.ErrOrStderr(), "\n")
		return exit.Silently(exit.Interrupted)
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
	}
	return exit.Errorf(exit.Failed, "no entry was evicted")
}

// stillWaits returns an error if an entry holds that waited when the user was asked: to evict it
// would break the lock, and that was not the question.
func stillWaits(ctx context.Context, cmd *cobra.Command, s *session.Session, name string, e schema.Entry) error {
	if e.State == schema.Holder {
		return nil
	}
	return during(cmd, "reading the queue again", func() error {
		queue, err := inspect.Read(ctx, s, name)
		for _, now := range queue.Entries {
			if now.Token == e.Token && now.Key == e.Key && now.State == schema.Holder {
				return exit.Errorf(exit.Failed, "%s holds %q by now: no entry was evicted", screen.Printable(e.Who()), name)
			}
		}
		return err
	})
}
