package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
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
	listen     string
	hosts      []string
	remote     bool
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
	fs.StringVar(&k.listen, "listen", "", "listen on this `ADDRESS`\n(default 127.0.0.1:0, a free port)")
	fs.BoolVar(&k.allowEvict, "allow-evict", false, "let the page ask to yield, and evict")
	fs.BoolVar(&k.remote, "allow-remote", false, "listen on any address, without a login")
	fs.StringArrayVar(&k.hosts, "host", nil, "answer requests for this `NAME` too; can be repeated")
	fs.Var(&k.every, "interval", "read every `DURATION`")
	for _, flag := range []string{"listen", "host"} {
		completeWords(cmd, flag, nil)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k.listen = cmp.Or(k.listen, "127.0.0.1:0")
		return a.ui(cmd, firstArg(args), k)
	}
	return cmd
}

// ui listens, and serves the page on a Session of its own until ctx ends.
func (a *app) ui(cmd *cobra.Command, prefix string, k uiFlags) error {
	ctx := cmd.Context()
	hosts, err := k.names(ctx)
	if err != nil {
		return err
	}
	t, err := a.conn.Target()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", k.listen)
	if err != nil {
		return exit.Errorf(exit.Failed, "--listen %s: %w", k.listen, err)
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
	return servePage(ctx, l, ui.Handler(s, &ui.Options{
		Title: t.Address.String(), Command: shell.Quote(append([]string{"fairlock"}, a.conn.Words(t)...)...), Prefix: prefix, Interval: time.Duration(k.every), AllowEvict: k.allowEvict, Token: token, Hosts: hosts,
		Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
	}))
}

// shutdownTimeout bounds the requests that are open when the page ends.
const shutdownTimeout = time.Second

// servePage serves a page until ctx ends; it then returns exit.Interrupted. When it
// returns, the server is closed.
//
//nolint:contextcheck // the server ends in an orderly way although ctx has ended
func servePage(ctx context.Context, l net.Listener, page http.Handler) error {
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // so that open pages end with it
		ErrorLog:    log.New(io.Discard, "", 0),                        // such errors are of clients that disconnect
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // ends with Shutdown or Close
	select {
	case err := <-served:
		return exit.Errorf(exit.Failed, "serve the page: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close() // a client does not read its answer
	}
	err := <-served
	if !errors.Is(err, http.ErrServerClosed) {
		return exit.Errorf(exit.Failed, "serve the page: %w", err)
	}
	return exit.Silently(exit.Interrupted)
}

// names returns the host names that the page answers to. It is an error if other
// machines could reach the page and --allow-remote is not given.
func (k *uiFlags) names(ctx context.Context) ([]string, error) {
	host, port, err := net.SplitHostPort(k.listen)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "--listen %s: want HOST:PORT, such as 127.0.0.1:8080", k.listen)
	}
	var ips []net.IPAddr
	if host != "" {
		ips, err = net.DefaultResolver.LookupIPAddr(ctx, host)
		if err != nil {
			return nil, exit.Errorf(exit.Usage, "--listen %s: %w", k.listen, err)
		}
	}
	loopback := len(ips) > 0
	anywhere := host == ""
	for _, ip := range ips {
		loopback = loopback && ip.IP.IsLoopback()
		anywhere = anywhere || ip.IP.IsUnspecified()
	}
	if !loopback && !k.remote {
		return nil, exit.Errorf(exit.Usage, "--listen %s: others could reach the page there, and it has no login: listen on 127.0.0.1:%s, or add --allow-remote", k.listen, port)
	}
	all := append([]string{"localhost", "127.0.0.1", "::1", host}, k.hosts...)
	if !anywhere {
		return all, nil
	}
	if name, err := os.Hostname(); err == nil {
		all = append(all, name)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "--listen %s: %w", k.listen, err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok {
			all = append(all, n.IP.String())
		}
	}
	return all, nil
}
