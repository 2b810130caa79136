package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/page"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/shell"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

const uiHelp = `Serve a page that shows the locks whose names begin with PREFIX, or all, live in
a browser: holders and waiters in order and for how long, deadlocks, sessions,
the last holds, and what to do about a queue that is blocked. The address is
printed; ^C ends it. The service is read every --interval while a page is open,
at most 256 queues each time, whatever the number of locks and pages.

The page only reads, unless --allow-evict is given: then it can ask holders to
yield and evict entries, after a question. The printed address then ends with a
secret: a page that was opened without it only reads. What the page does is
logged on stderr.

The page has no login. So ui listens on loopback addresses only, and answers
only requests that name one of these. With --allow-remote it listens anywhere;
--host adds names by which it is reached. Every client that reaches the page can
see the queues: put a proxy with a login in front of it.`

// uiFlags are the flags of ui.
type uiFlags struct {
	page.Address

	allowEvict bool
	every      interval
}

func (a *app) uiCommand() *cobra.Command {
	k := uiFlags{every: interval(ui.DefaultInterval)}
	cmd := &cobra.Command{
		SuggestFor: []string{"web", "serve", "dashboard", "page", "http"},
		Use:        "ui [PREFIX]",
		Short:      "Show locks and queues live in a browser",
		Long:       uiHelp,
		Example: `  fairlock ui
  fairlock ui --listen 127.0.0.1:8080 --allow-evict jobs/`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNames,
	}
	fs := cmd.Flags()
	fs.StringVar(&k.Listen, "listen", "", "listen on this `ADDRESS`\n(default 127.0.0.1:0, a free port)")
	fs.BoolVar(&k.allowEvict, "allow-evict", false, "let the page ask to yield, and evict")
	fs.BoolVar(&k.Remote, "allow-remote", false, "listen on any address, without a login")
	fs.StringArrayVar(&k.Names, "host", nil, "answer requests for this `NAME` too; can be repeated")
	fs.Var(&k.every, "interval", "read every `DURATION`")
	for _, flag := range []string{"listen", "host"} {
		completeWords(cmd, flag, nil)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k.Listen = cmp.Or(k.Listen, page.FreePort)
		return a.ui(cmd, firstArg(args), k)
	}
	return cmd
}

// ui listens, and serves the page on a Session of its own until ctx ends.
func (a *app) ui(cmd *cobra.Command, prefix string, k uiFlags) error {
	ctx := cmd.Context()
	hosts, err := k.Hosts(ctx)
	if err != nil {
		return err
	}
	t, err := a.conn.Target()
	if err != nil {
		return err
	}
	l, err := k.Socket(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // fails if Serve has closed it
	s, err := a.open(cmd, session.Options{Label: "fairlock ui"})
	if err != nil {
		return err
	}
	defer closeQuickly(s)
	can, token, end := "it only reads", "", ""
	if k.allowEvict {
		token = rand.Text()
		can, end = "it can evict entries if it is opened with the whole address", "#token="+token
	}
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s/%s\n", l.Addr(), end)
	fmt.Fprintf(cmd.ErrOrStderr(), "fairlock: this is the page of %s, and %s; ^C ends it\n", t.Address, can)
	return page.Serve(ctx, l, ui.Handler(s, &ui.Options{
		Title: t.Address.String(), Command: shell.Quote(append([]string{"fairlock"}, a.conn.Words(t)...)...), Prefix: prefix, Interval: time.Duration(k.every), AllowEvict: k.allowEvict, Token: token, Hosts: hosts,
		Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
	}))
}
